"""Step 6, write: the result into its table or files, by the definition's mode."""
