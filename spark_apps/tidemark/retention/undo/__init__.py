"""The way back: what a deletion takes is saved as Parquet before, and can be written back."""
