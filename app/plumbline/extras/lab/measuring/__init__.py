"""Measurement of one retriever in a process of its own: time and memory."""
