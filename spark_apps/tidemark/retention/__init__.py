"""purge: tag views past their retention, bucket by bucket, never what a projection still needs."""
