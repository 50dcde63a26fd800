"""The tables of the real systems, and what is true of them: Pekko's and kafka-journal's."""
