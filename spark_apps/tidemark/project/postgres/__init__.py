"""Read models in PostgreSQL: their tables, offsets, and the transaction of a batch."""
