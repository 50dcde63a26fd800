package tidemark.interop

import scala.collection.immutable.Seq
import scala.concurrent.Await

import akka.actor.ActorSystem
import akka.persistence.query.{ NoOffset, PersistenceQuery, TimestampOffset }
import akka.persistence.query.typed.EventEnvelope
import akka.persistence.r2dbc.query.scaladsl.R2dbcReadJournal
import akka.stream.scaladsl.Sink

/** `currentEventsBySlices`, read to its end. */
final class AkkaReading(system: ActorSystem) {
  private implicit val actorSystem: ActorSystem = system
  private lazy val journal =
    PersistenceQuery(system).readJournalFor[R2dbcReadJournal](R2dbcReadJournal.Identifier)

  /** The events of an entity type in a range of slices, in the order of their delivery. */
  def current(command: Arguments): Any = {
    val events = journal
      .currentEventsBySlices[Any](
        command.text("entity_type"),
        command.int("first_slice", 0),
        command.int("last_slice", 1023),
        NoOffset)
      .runWith(Sink.seq)
    Await.result(events, command.timeout).map { (event: EventEnvelope[Any]) =>
      Seq[Any](
        event.persistenceId,
        event.sequenceNr,
        event.offset.asInstanceOf[TimestampOffset].timestamp.toString,
        AkkaEntity.text(event.event),
        event.tags.toSeq.sorted)
    }
  }
}
