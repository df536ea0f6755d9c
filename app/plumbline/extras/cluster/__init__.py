"""Rows by the million, scored on a data cluster: one `score_batch` under every engine, Ray Data the one that is run."""
