"""validate: finds gaps, duplicates and lost tails in the numbers of a journal and its tag views."""
