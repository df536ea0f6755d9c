"""The three tiers that judge an answer, and the cascade over them. Models are reached through protocols alone."""
