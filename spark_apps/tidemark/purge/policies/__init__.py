"""Policies: the file that states what purge may delete, and which value of it counts."""
