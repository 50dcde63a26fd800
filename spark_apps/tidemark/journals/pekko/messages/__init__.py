"""Reads of messages: by key, by range, and only new ones."""
