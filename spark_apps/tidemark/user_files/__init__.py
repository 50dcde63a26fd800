"""User files with a header: SQL with YAML in a comment, Python with a decorator."""
