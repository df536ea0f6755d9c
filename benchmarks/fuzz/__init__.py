"""Parsers of what strangers write, fed with what nobody would."""
