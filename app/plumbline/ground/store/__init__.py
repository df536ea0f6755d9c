"""The one store: its tables, its transactions and their limits, and the versions of its schema."""
