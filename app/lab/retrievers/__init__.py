"""Retrievers, each behind the lab's one protocol."""
