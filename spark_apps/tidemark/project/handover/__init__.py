"""Exchanges offsets with projections of akka-projection-r2dbc."""
