"""Errors, settings, files, statistics: imported everywhere, import nothing of the other areas."""
