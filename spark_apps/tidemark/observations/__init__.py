"""Observations of the system's state: their figures, their history, and the alarms; no Spark."""
