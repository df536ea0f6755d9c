"""Plumbline: is what a RAG app says true to what it retrieved, and did it retrieve the right things."""

__version__ = "0.1.0"
