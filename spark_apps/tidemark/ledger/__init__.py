"""The record of all work: pieces, locks, runs, audit and quarantine."""
