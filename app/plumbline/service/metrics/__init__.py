"""Metrics for Prometheus. Label values are ours alone: no caller can create a series."""
