"""Who may call and how much: keys, scopes, rates, budgets. Knows no HTTP and nothing of what is called."""
