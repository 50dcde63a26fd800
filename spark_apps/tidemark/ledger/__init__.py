"""What was done, is being done and failed: pieces, locks, runs, audit, quarantine, offsets."""
