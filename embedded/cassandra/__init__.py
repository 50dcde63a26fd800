"""The embedded Cassandra: a real server as a child process."""
