"""The progress of projections, and the time buckets that they may process; without Spark."""
