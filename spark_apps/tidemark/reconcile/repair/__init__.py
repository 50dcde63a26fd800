"""The smallest set of writes and deletes that makes the check clean."""
