"""Amounts, dates, times and units in English and Chinese texts, and their comparison across ways of writing them."""
