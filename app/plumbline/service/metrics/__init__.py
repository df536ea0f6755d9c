"""What the service counts of itself, for Prometheus. Labels have values of ours alone: no caller can make a series."""
