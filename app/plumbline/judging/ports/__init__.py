"""Protocols and records shared by the tiers, the models and their observers; no implementation."""
