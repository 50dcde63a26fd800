package tidemark.interop

import scala.collection.immutable.Seq

import org.apache.pekko.actor.{ ActorRef, Props, Status }
import org.apache.pekko.persistence.{
  DeleteMessagesFailure,
  DeleteMessagesSuccess,
  PersistentActor,
  RecoveryCompleted,
  SaveSnapshotFailure,
  SaveSnapshotSuccess,
  SnapshotOffer
}
import org.apache.pekko.persistence.journal.Tagged

object Entity {

  /** Persist one event with persist, several with persistAll; answered with the last sequence nr. */
  final case class Write(events: Seq[Event])

  /** Answered with the snapshot's sequence nr. */
  case object Snapshot

  /** Delete events up to a sequence nr; answered with it. */
  final case class DeleteTo(sequenceNr: Long)

  /** Answered with the last sequence nr, once the actor has recovered. */
  case object Recovered

  /** Answered with what the actor recovered from. */
  case object RecoveredFrom

  /** Fail, so that the supervisor restarts the actor. Not answered. */
  case object Crash

  def props(persistenceId: String): Props = Props(new Entity(persistenceId))
}

/** A persistent actor that knows no more than what it recovered from. */
final class Entity(override val persistenceId: String) extends PersistentActor {
  import Entity._

  private var askedForSnapshot: Option[ActorRef] = None
  private var askedToDelete: Option[ActorRef] = None

  private var recoveredSnapshot = ""
  private var replayed = Vector.empty[String]
  private var recoveredTo = 0L

  override def receiveRecover: Receive = {
    case SnapshotOffer(_, snapshot) => recoveredSnapshot = snapshot.toString
    case RecoveryCompleted          => recoveredTo = lastSequenceNr
    case event                      => replayed :+= event.toString
  }

  override def receiveCommand: Receive = {
    case Write(events) => write(events.map(journaled), sender())
    case Recovered     => sender() ! lastSequenceNr
    case RecoveredFrom =>
      sender() ! Answer(
        "snapshot" -> recoveredSnapshot,
        "events" -> replayed,
        "sequence_nr" -> recoveredTo)
    case Crash         => throw new IllegalStateException(s"$persistenceId was told to crash")
    case Snapshot =>
      askedForSnapshot = Some(sender())
      saveSnapshot(lastSequenceNr.toString)
    case SaveSnapshotSuccess(metadata)  => askedForSnapshot.foreach(_ ! metadata.sequenceNr)
    case SaveSnapshotFailure(_, cause)  => askedForSnapshot.foreach(_ ! Status.Failure(cause))
    case DeleteTo(sequenceNr) =>
      askedToDelete = Some(sender())
      deleteMessages(sequenceNr)
    case DeleteMessagesSuccess(to)      => askedToDelete.foreach(_ ! to)
    case DeleteMessagesFailure(cause, _) => askedToDelete.foreach(_ ! Status.Failure(cause))
  }

  override protected def onPersistFailure(cause: Throwable, event: Any, sequenceNr: Long): Unit = {
    sender() ! Status.Failure(cause)
    super.onPersistFailure(cause, event, sequenceNr)
  }

  private def write(events: Seq[Any], asker: ActorRef): Unit = events match {
    case Seq(single) => persist(single)(_ => asker ! lastSequenceNr)
    case several =>
      var left = several.size
      persistAll(several) { _ =>
        left -= 1
        if (left == 0) asker ! lastSequenceNr
      }
  }

  private def journaled(event: Event): Any =
    if (event.tags.isEmpty) event.payload else Tagged(event.payload, event.tags)
}
