"""Trained detectors of hallucination that a user brings: described by a file, proven by a probe when they load."""
