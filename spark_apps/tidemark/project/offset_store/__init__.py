"""Step 7, remember: offsets, cursors, skips, and the origins of results."""
