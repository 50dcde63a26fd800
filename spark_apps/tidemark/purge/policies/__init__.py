"""Policies: the file that states what purge may delete, and the effective values."""
