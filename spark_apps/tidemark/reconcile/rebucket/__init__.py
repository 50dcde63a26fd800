"""Tag views copied into a table with another bucket size; the old table dropped."""
