"""How far a projection is, and which time buckets it may process; without Spark."""
