package tidemark.interop

import scala.concurrent.{ Await, Future }

import org.apache.pekko.actor.ActorSystem
import org.apache.pekko.persistence.cassandra.cleanup.Cleanup
import org.apache.pekko.persistence.cassandra.query.scaladsl.CassandraReadJournal
import org.apache.pekko.persistence.cassandra.reconciler.Reconciliation
import org.apache.pekko.persistence.query.PersistenceQuery
import org.apache.pekko.stream.scaladsl.{ Sink, Source }

/** The plugin's own tools: `Reconciliation` and `Cleanup`. */
final class Tools(system: ActorSystem) {
  private implicit val actorSystem: ActorSystem = system

  private lazy val reconciliation = new Reconciliation(system)
  private lazy val cleanup = new Cleanup(system)

  /** Texts for the operations that list something, else nothing; and how long it took. */
  def reconcile(command: Arguments): Answer = timed(command) {
    command.text("operation") match {
      case "truncate" => reconciliation.truncateTagView()
      case "all_tags" => reconciliation.allTags().runWith(Sink.seq)
      case "tags" =>
        reconciliation.tagsForPersistenceId(command.text("id"))
      case "delete" =>
        reconciliation.deleteTagViewForPersistenceIds(command.texts("ids").toSet, command.text("tag"))
      case "rebuild" =>
        ids(command).mapAsync(1)(reconciliation.rebuildTagViewForPersistenceIds).runWith(Sink.ignore)
      case "rebuild_all_persistence_ids" => reconciliation.rebuildAllPersistenceIds()
    }
  }

  def cleanUp(command: Arguments): Answer = timed(command) {
    val id = command.text("id")
    command.text("operation") match {
      case "delete_all"               => cleanup.deleteAll(id, command.flag("never_use_again"))
      case "delete_all_events"        => cleanup.deleteAllEvents(id, command.flag("never_use_again"))
      case "delete_events_to"         => cleanup.deleteEventsTo(id, command.long("to"))
      case "delete_all_tagged_events" => cleanup.deleteAllTaggedEvents(id)
      case "delete_all_snapshots"     => cleanup.deleteAllSnapshots(id)
      case "delete_before_snapshot"   => cleanup.deleteBeforeSnapshot(id, command.int("keep"))
      case "cleanup_before_snapshot"  => cleanup.cleanupBeforeSnapshot(id, command.int("keep"))
    }
  }

  /** The ids of the command, or all that the journal has. */
  private def ids(command: Arguments): Source[String, Any] =
    command.textsOption("ids").fold[Source[String, Any]](
      PersistenceQuery(system)
        .readJournalFor[CassandraReadJournal](CassandraReadJournal.Identifier)
        .currentPersistenceIds())(Source(_))

  private def timed(command: Arguments)(operation: => Future[Any]): Answer = {
    val started = System.nanoTime()
    val found = Await.result(operation, command.timeout) match {
      case texts: Iterable[_] => texts.toSeq
      case _                  => Nil
    }
    Answer("found" -> found, "seconds" -> (System.nanoTime() - started) / 1e9)
  }
}
