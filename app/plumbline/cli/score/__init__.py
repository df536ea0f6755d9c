"""A whole file of rows scored into a whole file of results, in input order; stops and goes on. Knows no command line.

records -> Scorers (in process, or a service) -> Journal (lines so far, locked) -> the results, under their own name
"""
