"""replicate: copies topics of kafka-journal into its tables."""
