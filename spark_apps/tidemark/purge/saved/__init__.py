"""What a deletion takes, saved as Parquet before it."""
