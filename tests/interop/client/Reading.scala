package tidemark.interop

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.UUID
import java.util.concurrent.ConcurrentLinkedQueue

import scala.collection.mutable
import scala.concurrent.{ Await, Future }
import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.pekko.Done
import org.apache.pekko.actor.ActorSystem
import org.apache.pekko.persistence.cassandra.query.scaladsl.CassandraReadJournal
import org.apache.pekko.persistence.query.{
  EventEnvelope,
  NoOffset,
  Offset,
  PersistenceQuery,
  TimeBasedUUID
}
import org.apache.pekko.stream.{ KillSwitch, KillSwitches }
import org.apache.pekko.stream.scaladsl.{ Keep, Sink }

/** `currentEventsByTag` and `eventsByTag`, read to their end or as far as they have come. */
final class Reading(system: ActorSystem) {
  private implicit val actorSystem: ActorSystem = system

  private lazy val journal = PersistenceQuery(system)
    .readJournalFor[CassandraReadJournal](CassandraReadJournal.Identifier)
  private val live = mutable.Map.empty[Int, Live]

  def perform(command: Arguments): Any = command.text("do") match {
    case "current" if command.flag("count_only") => count(command)
    case "current"                               => current(command)
    case "live_start"                            => start(command)
    case "live_poll"                             => live(command.int("stream")).answer
    case "live_stop" =>
      val stream = live.remove(command.int("stream")).get
      stream.switch.shutdown()
      Await.ready(stream.done, command.timeout)
      stream.answer
  }

  private def current(command: Arguments): Answer = {
    val rows = new ConcurrentLinkedQueue[EventEnvelope]
    val done = journal
      .currentEventsByTag(command.text("tag"), offset(command))
      .runForeach(event => rows.add(event): Unit)
    Reading.delivered(rows.asScala, Try(Await.result(done, command.timeout)))
  }

  /** Only how many, how long it took, and a digest over all of them in order. */
  private def count(command: Arguments): Answer = {
    val digest = MessageDigest.getInstance("SHA-256")
    var events = 0L
    val started = System.nanoTime()
    var first = started
    val done = journal.currentEventsByTag(command.text("tag"), offset(command)).runForeach { event =>
      if (events == 0) first = System.nanoTime()
      events += 1
      digest.update(s"${event.persistenceId} ${event.sequenceNr} ${event.event}\n".getBytes(UTF_8))
    }
    val outcome = Try(Await.result(done, command.timeout))
    Answer(
      "events" -> events,
      "sha256" -> digest.digest().map("%02x".format(_)).mkString,
      "seconds" -> (System.nanoTime() - started) / 1e9,
      "seconds_from_first" -> (System.nanoTime() - first) / 1e9,
      "failure" -> Answer.failureOf(outcome))
  }

  private def start(command: Arguments): Int = {
    val rows = new ConcurrentLinkedQueue[EventEnvelope]
    val (switch, done) = journal
      .eventsByTag(command.text("tag"), offset(command))
      .viaMat(KillSwitches.single)(Keep.right)
      .toMat(Sink.foreach((event: EventEnvelope) => rows.add(event): Unit))(Keep.both)
      .run()
    val number = live.keys.maxOption.getOrElse(0) + 1
    live(number) = new Live(rows, switch, done)
    number
  }

  private def offset(command: Arguments): Offset =
    command.textOption("offset").fold[Offset](NoOffset)(uuid => TimeBasedUUID(UUID.fromString(uuid)))
}

object Reading {

  /** Events in the order of their delivery, and how the query ended if it failed. */
  def delivered(events: Iterable[EventEnvelope], outcome: Try[Any]): Answer = Answer(
    "rows" -> events.map { event =>
      Seq[Any](
        event.persistenceId,
        event.sequenceNr,
        event.offset.asInstanceOf[TimeBasedUUID].value.toString,
        event.event.toString,
        event.eventMetadata.map(_.toString))
    },
    "failure" -> Answer.failureOf(outcome))
}

/** A live query, and what it has delivered so far. */
private final class Live(
    rows: ConcurrentLinkedQueue[EventEnvelope],
    val switch: KillSwitch,
    val done: Future[Done]) {
  def answer: Answer = {
    val ended = done.value
    Reading.delivered(rows.asScala, ended.getOrElse(Try(Done)))
  }
}
