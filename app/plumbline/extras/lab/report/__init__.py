"""Reports of an experiment: tables and a page with plots."""
