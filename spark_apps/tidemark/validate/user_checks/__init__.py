"""Checks that users write: one file of include/sql/checks for each."""
