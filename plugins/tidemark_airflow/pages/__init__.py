"""Pages in Airflow's own server that need its login; only the server loads them."""
