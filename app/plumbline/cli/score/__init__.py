"""`plumbline score`: a file of rows into a file of results in input order, resumable."""
