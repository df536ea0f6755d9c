"""The rows of data files as samples, and results as rows of data files. Streams; needs no model, no web."""
