"""The three tiers that judge an answer, and the cascade over them; models are behind protocols."""
