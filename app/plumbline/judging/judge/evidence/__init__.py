"""The evidence check: a judge's quotes are searched in the contexts, and limit what its verdicts count for."""
