"""Tidemark inside Airflow: the window of a run, the operator, the timetable, the form."""
