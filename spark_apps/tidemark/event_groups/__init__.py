"""Event groups: statements over Cassandra that are executed as a whole, or rolled back."""
