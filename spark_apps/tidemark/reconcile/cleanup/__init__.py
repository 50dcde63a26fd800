"""cleanup: deletes what Pekko's Cleanup deletes, for given persistence ids."""
