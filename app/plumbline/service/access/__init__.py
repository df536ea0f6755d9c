"""Access control: keys and scopes, request rates, daily budgets. Knows no HTTP and nothing of what is called."""
