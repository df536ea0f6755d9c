"""The world: language models, sentence encoders and what they need. Fulfils the protocols of judges by shape alone."""
