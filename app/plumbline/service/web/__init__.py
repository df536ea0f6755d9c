"""Pages for people: try a sample, look back at jobs, label rows."""
