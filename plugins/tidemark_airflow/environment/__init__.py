"""What the applications get from Airflow beside their arguments."""
