"""Sentences, tiers, evidence and scores: the path that every sample takes. No web framework, no network."""
