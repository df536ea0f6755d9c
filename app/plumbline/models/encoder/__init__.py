"""Token vectors of texts, for many callers at once: one model, little padding, nothing encoded twice."""
