"""Commands that show or change the state of projections: status, pause, offsets, clear."""
