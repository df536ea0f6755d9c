"""The HTTP service: routes, access keys, metrics and traces."""
