"""The only room that speaks to Cassandra: the driver for control, the Spark connector for bulk."""
