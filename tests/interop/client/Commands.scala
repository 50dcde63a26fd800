package tidemark.interop

import java.io.{ BufferedReader, FileDescriptor, FileOutputStream, InputStreamReader, PrintStream }
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

/** A node of an application: an actor system of its own, which does what commands ask. */
trait OneNode {
  def perform(command: Arguments): Any
  def close(): Unit
}

/**
 * One JSON command a line on standard input, one JSON answer a line on standard output:
 * `{"ok": ...}` or `{"error": {"type": ..., "message": ...}}`. Commands are done one after another.
 * `open` makes a node with the settings `config`, `close` ends it; all others are for a node.
 */
final class Commands(open: Map[String, Any] => OneNode) {
  private val json = new ObjectMapper()
  private val nodes = mutable.Map.empty[Int, OneNode]
  private var opened = 0

  def serve(): Unit = {
    val answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, UTF_8)
    // Akka's and Pekko's default loggers print to standard output, which is for answers only.
    System.setOut(System.err)
    val commands = new BufferedReader(new InputStreamReader(System.in, UTF_8))
    Iterator.continually(commands.readLine()).takeWhile(_ != null).foreach { line =>
      answers.println(json.writeValueAsString(answer(line).toJava))
    }
    nodes.values.foreach(node => Try(node.close()))
    System.exit(0)
  }

  private def answer(line: String): Answer =
    try Answer("ok" -> perform(new Arguments(json.readTree(line))))
    catch { case NonFatal(error) => Answer("error" -> Answer.failure(error)) }

  private def perform(command: Arguments): Any = command.text("do") match {
    case "open" =>
      val made = open(command.settings("config"))
      opened += 1
      nodes(opened) = made
      opened
    case "close" =>
      nodes.remove(command.int("node")).foreach(_.close())
      Answer.nothing
    case _ => nodes(command.int("node")).perform(command)
  }
}
