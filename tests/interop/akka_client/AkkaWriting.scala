package tidemark.interop

import scala.collection.concurrent.TrieMap
import scala.concurrent.{ Await, Future }

import akka.actor.ActorSystem
import akka.actor.typed
import akka.actor.typed.scaladsl.AskPattern._
import akka.actor.typed.scaladsl.adapter._
import akka.pattern.gracefulStop
import akka.persistence.r2dbc.cleanup.scaladsl.EventSourcedCleanup
import akka.stream.scaladsl.{ Sink, Source }
import akka.util.Timeout

/** Everything that entities do, and deletions. An entity starts when it is first asked. */
final class AkkaWriting(system: ActorSystem) {
  private implicit val typedSystem: typed.ActorSystem[Nothing] = system.toTyped
  import system.dispatcher

  private val entities = TrieMap.empty[String, typed.ActorRef[AkkaEntity.Command]]
  private lazy val cleanup = new EventSourcedCleanup(system)

  def perform(command: Arguments): Any = command.text("do") match {
    case "persist" => persist(command)
    case "stop"    => entities.keys.foreach(stop(_, command)); Answer.nothing
    case "cleanup" =>
      stop(command.text("id"), command)
      Await.result(delete(command), command.timeout)
      Answer.nothing
  }

  /** Several ids at a time, each with its groups of events one after the other. With `no_wait`, the
    * answer comes before the events are written.
    */
  private def persist(command: Arguments): Any = {
    val options =
      AkkaEntity.Options(command.flag("as_bytes"), command.intOption("snapshot_every"))
    val parallel = command.int("parallelism", 10)
    val written = Source(command.objects("writes")).mapAsync(parallel) { write =>
      val entity = entities.getOrElseUpdate(
        write.text("id"),
        system.spawnAnonymous(AkkaEntity(write.text("id"), options)))
      write.groups.foldLeft(Future.successful(0L)) { (before, group) =>
        implicit val timeout: Timeout = command.timeout
        before.flatMap(_ => entity.ask[Long](AkkaEntity.Write(group, _)))
      }
    }
    val numbers = written.runWith(Sink.seq)
    if (command.flag("no_wait")) Answer.nothing else Await.result(numbers, command.timeout)
  }

  /** The entity must not run meanwhile. */
  private def delete(command: Arguments): Future[Any] = {
    val id = command.text("id")
    command.text("operation") match {
      case "delete_events_to"  => cleanup.deleteEventsTo(id, command.long("to"))
      case "delete_all_events" => cleanup.deleteAllEvents(id, command.flag("reset"))
    }
  }

  private def stop(id: String, command: Arguments): Unit =
    entities.remove(id).foreach { entity =>
      Await.result(
        gracefulStop(entity.toClassic, command.timeout, AkkaEntity.Stop),
        command.timeout)
    }
}
