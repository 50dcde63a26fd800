"""The embedded Airflow: its processes, its configuration, and a client of its REST API."""
