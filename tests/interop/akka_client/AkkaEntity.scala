package tidemark.interop

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.immutable.Seq

import akka.actor.typed.{ ActorRef, Behavior }
import akka.actor.typed.scaladsl.{ ActorContext, Behaviors }
import akka.persistence.r2dbc.query.scaladsl.R2dbcReadJournal
import akka.persistence.typed.{ EventAdapter, EventSeq, PersistenceId, ReplicaId, ReplicationId }
import akka.persistence.typed.scaladsl.{
  Effect,
  EventSourcedBehavior,
  ReplicatedEventSourcing,
  RetentionCriteria
}

/** An event-sourced entity, whose state is the payload of its last event. */
object AkkaEntity {
  sealed trait Command

  /** Persist the events in one transaction; answered with the last sequence nr. */
  final case class Write(events: Seq[Event], asker: ActorRef[Long]) extends Command
  case object Stop extends Command

  /** Whether payloads are byte arrays instead of strings, and after how many events a snapshot
    * replaces the events before it, if at all.
    */
  final case class Options(areBytes: Boolean, snapshotEvery: Option[Int])

  /** The entity of an id; that of an id of three parts is replicated, with no other replica. */
  def apply(id: String, options: Options): Behavior[Command] = Behaviors.setup { context =>
    id.split('|') match {
      case Array(kind, entity, replica) =>
        val here = ReplicaId(replica)
        ReplicatedEventSourcing.commonJournalConfig(
          ReplicationId(kind, entity, here),
          Set(here),
          R2dbcReadJournal.Identifier)(r => behavior(context, r.persistenceId, options))
      case _ => behavior(context, PersistenceId.ofUniqueId(id), options)
    }
  }

  private def behavior(
      context: ActorContext[Command],
      id: PersistenceId,
      options: Options): EventSourcedBehavior[Command, Event, String] = {
    val retention = options.snapshotEvery.fold(RetentionCriteria.disabled)(
      RetentionCriteria.snapshotEvery(_, 1).withDeleteEventsOnSnapshot)
    EventSourcedBehavior[Command, Event, String](
      id,
      "",
      {
        case (_, Write(events, asker)) =>
          Effect
            .persist(events)
            .thenReply(asker)(_ => EventSourcedBehavior.lastSequenceNumber(context))
        case (_, Stop) => Effect.stop()
      },
      (_, event) => event.payload)
      .withTagger(_.tags)
      .eventAdapter(new Journaled(options.areBytes))
      .withRetention(retention)
  }

  /** The payload alone goes into the journal; tags have a column. */
  private final class Journaled(areBytes: Boolean) extends EventAdapter[Event, Any] {
    override def toJournal(event: Event): Any =
      if (areBytes) event.payload.getBytes(UTF_8) else event.payload
    override def manifest(event: Event): String = ""
    override def fromJournal(payload: Any, manifest: String): EventSeq[Event] =
      EventSeq.single(Event(text(payload), Set.empty))
  }

  /** The payload of an event as text. */
  def text(payload: Any): String = payload match {
    case bytes: Array[Byte] => new String(bytes, UTF_8)
    case other              => other.toString
  }
}
