"""The comparison of topics with tables: its findings in the table `finding`, and their repair."""
