package tidemark.interop

import java.io.{ BufferedReader, FileDescriptor, FileOutputStream, InputStreamReader, PrintStream }
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{ JsonNode, ObjectMapper }

/**
 * One JSON command a line on standard input, one JSON answer a line on standard output:
 * `{"ok": ...}` or `{"error": {"type": ..., "message": ...}}`. Commands are done one after another.
 * Where Cassandra is, and who logs in, comes from the environment (see `Node.connection`).
 */
object Main {
  private val json = new ObjectMapper()
  private val nodes = mutable.Map.empty[Int, Node]
  private var opened = 0

  def main(arguments: Array[String]): Unit = {
    val answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, UTF_8)
    // Pekko's default logger prints to standard output, which is for answers only.
    System.setOut(System.err)
    val commands = new BufferedReader(new InputStreamReader(System.in, UTF_8))
    Iterator.continually(commands.readLine()).takeWhile(_ != null).foreach { line =>
      answers.println(json.writeValueAsString(answer(line).toJava))
    }
    nodes.values.foreach(node => Try(node.close()))
    System.exit(0)
  }

  private def answer(line: String): Answer =
    try Answer("ok" -> perform(json.readTree(line)))
    catch { case NonFatal(error) => Answer("error" -> Answer.failure(error)) }

  private def perform(command: JsonNode): Any = {
    val arguments = new Arguments(command)
    def node: Node = nodes(arguments.int("node"))
    arguments.text("do") match {
      case "open" =>
        val made = new Node(arguments.settings("config"))
        opened += 1
        nodes(opened) = made
        opened
      case "close" =>
        nodes.remove(arguments.int("node")).foreach(_.close())
        Answer.nothing
      case "persist" | "batch" | "snapshot" | "delete_messages" | "recover" | "recovered_from" |
          "crash" | "stop" =>
        node.writing.perform(arguments)
      case "current" | "live_start" | "live_poll" | "live_stop" => node.reading.perform(arguments)
      case "reconciliation"                                     => node.tools.reconcile(arguments)
      case "cleanup"                                            => node.tools.cleanUp(arguments)
      case other => throw new IllegalArgumentException(s"no such command: $other")
    }
  }
}
