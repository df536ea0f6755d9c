"""The HTTP room: with main, the only one that knows FastAPI."""
