"""Spark on this machine: its installation, its options, and the archive of its classes."""
