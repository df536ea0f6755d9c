"""Lab: build, time and evaluate retrievers on corpora, chunkings and blends, as an experiment file says.

Every measure, comparison and fusion is `plumbline.retrieval`'s; this room adds engines and clocks, and no formula.
"""
