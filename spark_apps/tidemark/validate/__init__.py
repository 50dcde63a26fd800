"""validate: gaps, duplicates and lost tails in what the journal and its tag views number."""
