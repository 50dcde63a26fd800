"""The groups that were submitted, in their order, and the state of each of their events."""
