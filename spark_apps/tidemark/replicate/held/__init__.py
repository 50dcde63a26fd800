"""What becomes of records in quarantine."""
