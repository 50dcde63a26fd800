"""purge: deletes tag views past their retention, by time bucket, if no projection needs them."""
