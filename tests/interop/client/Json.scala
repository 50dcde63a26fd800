package tidemark.interop

import scala.collection.immutable.Seq
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode

/** A JSON object to answer with; values are text, numbers, booleans, sequences and answers. */
final case class Answer(fields: (String, Any)*) {
  def toJava: java.util.Map[String, Any] = {
    val named = new java.util.LinkedHashMap[String, Any]
    fields.foreach { case (name, value) => named.put(name, Answer.plain(value)) }
    named
  }
}

object Answer {
  val nothing: Answer = Answer()

  /** The class and the message of an error, as a user would read them in a log. */
  def failure(error: Throwable): Answer =
    Answer("type" -> error.getClass.getSimpleName, "message" -> String.valueOf(error.getMessage))

  /** The error of a query, or nothing if it came to its end. */
  def failureOf(outcome: Try[Any]): Option[Answer] = outcome.failed.toOption.map(failure)

  private def plain(value: Any): Any = value match {
    case answer: Answer         => answer.toJava
    case Some(present)          => plain(present)
    case None                   => null
    case several: Iterable[_]   => several.map(plain).toSeq.asJava
    case other                  => other
  }
}

/** One event to persist. */
final case class Event(payload: String, tags: Set[String])

/** The fields of a command, typed; a missing one is an error that names it. */
final class Arguments(command: JsonNode) {
  def text(name: String): String = required(name).asText
  def int(name: String): Int = required(name).asInt
  def long(name: String): Long = required(name).asLong
  def texts(name: String): Seq[String] = required(name).elements.asScala.map(_.asText).toList

  def textOption(name: String): Option[String] = optional(name).map(_.asText)
  def intOption(name: String): Option[Int] = optional(name).map(_.asInt)
  def int(name: String, default: Int): Int = intOption(name).getOrElse(default)
  def flag(name: String): Boolean = optional(name).exists(_.asBoolean)
  def textsOption(name: String): Option[Seq[String]] = optional(name).map(_ => texts(name))

  /** A sequence of objects, each with fields of its own. */
  def objects(name: String): Seq[Arguments] =
    required(name).elements.asScala.map(new Arguments(_)).toList

  /** How long the command may take. */
  def timeout: FiniteDuration = int("timeout_s", 60).seconds

  /** Configuration paths and their values. */
  def settings(name: String): Map[String, Any] =
    required(name).fields.asScala.map { entry =>
      entry.getKey -> (if (entry.getValue.isInt) entry.getValue.asInt else entry.getValue.asText)
    }.toMap

  /** Groups of events; the events of one group are persisted together. */
  def groups: Seq[Seq[Event]] =
    required("groups").elements.asScala.map(_.elements.asScala.map(event).toList).toList

  private def event(node: JsonNode): Event =
    Event(node.get("payload").asText, node.get("tags").elements.asScala.map(_.asText).toSet)

  private def optional(name: String): Option[JsonNode] = Option(command.get(name)).filterNot(_.isNull)

  private def required(name: String): JsonNode =
    optional(name).getOrElse(throw new IllegalArgumentException(s"the command lacks $name"))
}
