"""The execution of groups: events in the order of their dependencies, and the rollback."""
