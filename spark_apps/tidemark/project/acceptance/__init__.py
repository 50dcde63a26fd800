"""Step 3, accept: each event exactly once, and none before its predecessor."""
