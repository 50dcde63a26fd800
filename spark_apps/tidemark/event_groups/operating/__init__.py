"""What operators ask: how far a stream is, what a group has done, and what one would do."""
