"""Saves rows as Parquet before they are deleted."""
