"""Step 1, plan: decide which time buckets a run processes, and why."""
