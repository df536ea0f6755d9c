"""Whether the right things were retrieved: measures, files, comparison, fusion. Pure: no network, no web framework."""
