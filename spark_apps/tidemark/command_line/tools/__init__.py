"""Tools, which do without Cassandra and leave no report."""
