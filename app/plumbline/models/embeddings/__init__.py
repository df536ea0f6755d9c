"""Vectors of texts from a server: `/embeddings` of an OpenAI-compatible API, over the transport of the judges."""
