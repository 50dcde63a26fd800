"""Topics against tables: findings in the table `finding`, and their repair from Kafka."""
