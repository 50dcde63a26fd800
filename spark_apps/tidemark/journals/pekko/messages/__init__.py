"""Reads of messages: which rows count, by key, and those that are new."""
