"""The environment that the applications get from Airflow, in addition to their arguments."""
