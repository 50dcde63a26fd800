"""What event groups call outside of Cassandra: users' functions, HTTP, Kafka and Airflow."""
