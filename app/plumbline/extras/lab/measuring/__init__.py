"""One retriever built and asked in a process of its own, under a clock and a measure of memory."""
