"""What event groups ask and tell outside of Cassandra: users' functions, and addresses."""
