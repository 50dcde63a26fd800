"""How far topics are replicated, for readers that wait for it."""
