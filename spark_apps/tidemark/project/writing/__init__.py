"""Step 6, write: stores the result in its table or files, by the definition's mode."""
