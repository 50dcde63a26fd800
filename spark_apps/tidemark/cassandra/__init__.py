"""All access to Cassandra: by the Python driver for control, by the Spark connector for bulk."""
