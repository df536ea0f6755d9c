"""Rows of many, each scored by itself: a record in, a line out. Knows no HTTP, no job and no file."""
