"""Files of judgments and runs with one fault each, and what is said of it."""

import gzip

GOOD_QRELS = b"q1 0 d1 2\nq1 0 d2 1\nq2 0 d4 1\n"
GOOD_RUN = b"q1 Q0 d1 1 9.0 t\nq1 Q0 d3 2 8.0 t\nq2 Q0 d9 1 5.0 t\nq2 Q0 d4 2 4.0 t\n"
# 36 MB from 70 KB, in two members.
BOMB = gzip.compress(b"q1 Q0 d1 1 9.0 t\n" * (1 << 20), compresslevel=9, mtime=0) * 2

# name: (which file, its content, place, what is said)
BAD_FILES: dict[str, tuple[str, bytes, str, str]] = {
    "judgments of three columns": ("qrels", b"q1 0 d1 2\nq1 0 d2\n", ":2", "expected 4 fields"),
    "judgments of five columns": ("qrels", b"q1 0 d1 2 x\n", ":1", "expected 4 fields"),
    "relevance that is no number": ("qrels", b"q1 0 d1 2\nq1 0 d2 high\n", ":2", "found the grade"),
    "relevance between grades": ("qrels", b"q1 0 d1 0.5\n", ":1", "found the grade '0.5', wanted a whole"),
    "judgment twice": ("qrels", GOOD_QRELS + b"q1 0 d1 0\n", ":4", "document 'd1' has two grades"),
    "latin-1 judgments": ("qrels", b"q1 0 d1 2\nq1 0 d2 1\nq2 0 caf\xe9 1\n", ":3", "is not UTF-8"),
    "no judgments": ("qrels", b"", "", "holds no judgment"),
    "run of five columns": ("run", GOOD_RUN + b"q2 Q0 d5 3 1.0\n", ":5", "expected 6 fields"),
    "run of two columns": ("run", b"q1 d1\n", ":1", "expected 6 fields"),
    "score that is no number": ("run", b"q1 Q0 d1 1 9.0 t\nq1 Q0 d3 2 high t\n", ":2", "score 'high' is not a finite"),
    "score that is NaN": ("run", b"q1 Q0 d1 1 9.0 t\nq1 Q0 d3 2 nan t\n", ":2", "score 'nan' is not a finite"),
    "score that is infinite": ("run", b"q1 Q0 d1 1 1e999 t\n", ":1", "score '1e999' is not a finite"),
    "document twice": ("run", GOOD_RUN + b"q1 Q0 d1 3 1.0 t\n", ":5", "document 'd1' is listed twice"),
    "latin-1 run": ("run", b"q1 Q0 d1 1 9.0 t\nq1 Q0 \xc3\xa9 2 8 t\nq1 Q0 caf\xe9 3 7 t\n", ":3", "is not UTF-8"),
    "UTF-16 run": ("run", GOOD_RUN.decode().encode("utf-16"), "", "is UTF-16; send text as UTF-8"),
    "empty run": ("run", b"", "", "holds no row"),
    "run of comments": ("run", b"# nothing\n\n", "", "holds no row"),
    "gzip cut off": ("run", gzip.compress(GOOD_RUN, mtime=0)[:-9], "", "ends too early"),
    "gzip that is none": ("run", b"\x1f\x8bnothing", "", "the gzip data is broken"),
}

GOOD_GOLD = b"qid\tdocument_ids\nq1\t['d1', 'd2']\nq2\t['d4']\n"
GOOD_RETRIEVED = b"qid\tdoc_ids\tnote\nq1\t['d1', 'd3']\tx\nq2\t[\"d9\", \"d4\"]\ty\n"

BAD_TABLES: dict[str, tuple[str, bytes, str, str]] = {
    "gold that is no list": ("qrels", b"qid\tdocument_ids\nq1\t['d1']\nq2\td4\n", ":3", "should hold a list"),
    "no such column": ("qrels", b"qid\tgold\nq1\t['d1']\n", ":2", "wanted a column of documents"),
    "a cell too few": ("run", GOOD_RETRIEVED + b"q3\t['d1']\n", ":4", "expected 3 cells as in the header, found 2"),
    "query twice": ("run", GOOD_RETRIEVED + b"q1\t['d1']\tz\n", ":4", "query 'q1' has a second row"),
    "latin-1 table": ("run", GOOD_RETRIEVED + b"q3\t['caf\xe9']\tz\n", ":4", "is not UTF-8"),
    "header alone": ("run", b"qid\tdoc_ids\n", "", "holds no row"),
}
