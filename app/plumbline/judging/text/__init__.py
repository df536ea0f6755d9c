"""Texts, sentences, claims and scores. Pure: no network, no files, no model."""
