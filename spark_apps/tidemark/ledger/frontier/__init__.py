"""The summary of done pieces as spans, which is read instead of the rows of all pieces."""
