"""The Iceberg tables of mode `export`: their catalog, their columns, and one commit per batch."""
