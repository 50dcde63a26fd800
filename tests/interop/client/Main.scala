package tidemark.interop

/** The Pekko client. Where Cassandra is, and who logs in, is in the environment (see `Node`). */
object Main {
  def main(arguments: Array[String]): Unit = new Commands(new Node(_)).serve()
}
