"""Checks of validate that users write: one file of include/sql/checks for each."""
