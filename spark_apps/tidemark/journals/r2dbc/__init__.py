"""The journal and the snapshots of akka-persistence-r2dbc in PostgreSQL."""
