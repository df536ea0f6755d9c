"""How far scores agree with what people said of the same answers."""
