"""What the contexts give to a sentence of the answer, measured in words, characters and vectors; weighed elsewhere."""
