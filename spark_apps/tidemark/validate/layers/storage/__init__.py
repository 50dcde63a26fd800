"""The layer `storage`: compares the retention of tables with the needs of their readers."""
