"""The embedded default: a real Cassandra and a real Airflow on one machine, without containers."""
