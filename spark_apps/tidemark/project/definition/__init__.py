"""What the user wrote: the header, the query or function, its checks. Needs no Spark."""
