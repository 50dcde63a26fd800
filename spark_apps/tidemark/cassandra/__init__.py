"""All access to Cassandra: single statements by the Python driver, bulk by the Spark connector."""
