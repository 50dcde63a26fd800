"""Repeats ended groups in other keyspaces, from what is stored of them."""
