"""Data files of any size as records, and results as tables."""
