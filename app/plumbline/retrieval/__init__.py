"""Measures of retrieval, their file formats, comparison and fusion of runs. Pure: no network, no web framework."""
