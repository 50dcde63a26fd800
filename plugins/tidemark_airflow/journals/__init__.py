"""The journals whose DAGs this Airflow has: `default`, and the entries of a file."""
