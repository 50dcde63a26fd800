"""Reports for operators: the state of a stream, what a group has done, and what one would do."""
