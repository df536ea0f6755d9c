"""Metrics besides faithfulness: lists of verdicts that a judge gives in the same reply, and the values counted here."""
