"""Files of the user's with a header: SQL with comments, Python with a decorator."""
