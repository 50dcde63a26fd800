"""repair: the fewest writes and deletes after which a check finds nothing repairable."""
