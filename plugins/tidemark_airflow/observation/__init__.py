"""The task of the DAG `observe`, and the figures for Prometheus."""
