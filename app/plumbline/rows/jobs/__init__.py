"""Jobs: many rows kept on disk, handed out in chunks, each scored once. Knows rows and handlers, not judges."""
