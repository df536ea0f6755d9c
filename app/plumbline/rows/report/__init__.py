"""The report on many rows: lines of results in; a summary, a page, Markdown and JUnit XML out."""
