"""Step 7, remember: offsets, cursors, skips, and what a bucket was made from."""
