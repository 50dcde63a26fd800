"""observe: measures lag and freshness every few minutes, and raises alarms; no Spark."""
