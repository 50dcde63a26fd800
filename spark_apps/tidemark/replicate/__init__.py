"""Replicating topics of kafka-journal into its tables."""
