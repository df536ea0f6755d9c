"""Plumbline inside other tools: each file one of them, imported when it is used, on the client or in this process."""
