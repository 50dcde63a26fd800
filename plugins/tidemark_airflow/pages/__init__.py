"""Pages in Airflow's own server, behind its login; only the server loads them."""
