"""Event groups: statements over Cassandra that are executed together, or rolled back."""
