"""Answers from retrieved contexts: asked of a user's endpoint, kept, and judged by the service."""
