"""Texts into vectors of their tokens, for many callers at once: one model, little padding, nothing encoded twice."""
