"""What an experiment found, shown: tables to read and to load, a page with plots."""
