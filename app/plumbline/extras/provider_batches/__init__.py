"""Batch files: questions to a chat model as lines of files, and what becomes of them. Knows no SDK and no judge."""
