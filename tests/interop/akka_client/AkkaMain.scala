package tidemark.interop

/** The Akka client. Where PostgreSQL is, and who logs in, is in the environment (see `AkkaNode`). */
object AkkaMain {
  def main(arguments: Array[String]): Unit = new Commands(new AkkaNode(_)).serve()
}
