"""The checks of a complete journal, whose findings have no time bucket; all of them warn."""
