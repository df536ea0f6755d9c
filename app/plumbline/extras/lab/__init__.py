"""Retrievers made, timed and judged: corpora into chunks, chunks into indexes, indexes into runs, runs into a verdict.

Every measure, comparison and fusion is `plumbline.retrieval`'s; this room adds engines and clocks, and no formula.
"""
