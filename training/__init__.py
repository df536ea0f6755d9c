"""Training of a head that reads the token vectors of tier embedding: see training/README.md."""
