"""How the events of each source are read and seen; what a header says of them is in `source`."""
