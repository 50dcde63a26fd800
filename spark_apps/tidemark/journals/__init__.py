"""The tables of the real systems, Pekko's and kafka-journal's: their names, shapes and reads."""
