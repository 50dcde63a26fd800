"""The journal's own tables, exactly as Pekko and Akka Persistence Cassandra make and read them."""
