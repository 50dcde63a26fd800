"""Step 1, plan: which time buckets a run processes, and why."""
