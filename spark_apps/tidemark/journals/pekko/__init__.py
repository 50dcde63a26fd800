"""The journal's own tables, exactly as Pekko and Akka Persistence Cassandra use them."""
