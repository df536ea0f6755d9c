"""Judging through a provider's Batch API: request files, their submission, and results from the replies."""
