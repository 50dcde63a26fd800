"""rebucket: copies tag views into a table with another bucket size; drops the old table."""
