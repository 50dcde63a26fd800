"""cleanup: what Pekko's Cleanup deletes, of persistence ids that somebody names."""
