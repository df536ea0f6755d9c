"""The evidence check: what a judge quotes is searched by us, and a verdict counts for what its evidence allows."""
