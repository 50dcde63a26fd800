"""The tables of the real systems, Pekko's, kafka-journal's and akka-persistence-r2dbc's."""
