package tidemark.interop

import scala.collection.concurrent.TrieMap
import scala.collection.immutable.Seq
import scala.concurrent.{ Await, Future }
import scala.concurrent.duration._

import org.apache.pekko.actor.{ ActorRef, ActorSystem, PoisonPill }
import org.apache.pekko.pattern.{ ask, gracefulStop }
import org.apache.pekko.stream.scaladsl.{ Sink, Source }
import org.apache.pekko.util.Timeout

/** Everything that persistent actors are asked to do. An actor starts when it is first asked. */
final class Writing(system: ActorSystem) {
  private implicit val actorSystem: ActorSystem = system
  import system.dispatcher

  private val entities = TrieMap.empty[String, ActorRef]

  def perform(command: Arguments): Any = command.text("do") match {
    case "persist"  => persist(command)
    case "batch"    => batch(command)
    case "snapshot" => answered(command, Entity.Snapshot)
    case "delete_messages" => answered(command, Entity.DeleteTo(command.long("to")))
    case "recover"  => answered(command, Entity.Recovered)
    case "recovered_from" => answered(command, Entity.RecoveredFrom)
    case "crash"    => entity(command.text("id")) ! Entity.Crash; Answer.nothing
    case "stop" =>
      command.textsOption("ids").getOrElse(entities.keys).foreach(stop(_, command.timeout))
      Answer.nothing
  }

  /** The last sequence nr, or nothing if the actor is stopped before its writes are answered. */
  private def persist(command: Arguments): Any = {
    val id = command.text("id")
    if (command.flag("stop_at_once")) {
      command.groups.foreach(group => entity(id) ! Entity.Write(group))
      stop(id, command.timeout)
      Answer.nothing
    } else Await.result(write(id, command.groups, command.timeout), command.timeout)
  }

  /** `ids` actors write `events` events each, all with the same tags, `parallelism` at a time. */
  private def batch(command: Arguments): Answer = {
    val (ids, events) = (command.int("ids"), command.int("events"))
    val (tags, size) = (command.texts("tags").toSet, command.int("payload_size", 100))
    def payload(id: String, nr: Int): String = s"$id#$nr".padTo(size, '.')
    val started = System.nanoTime()
    val written = Source(0 until ids).mapAsyncUnordered(command.int("parallelism", 50)) { number =>
      val id = s"${command.text("prefix")}$number"
      val all = (1 to events).map(nr => Event(payload(id, nr), tags))
      for {
        _ <- write(id, all.grouped(command.int("group", 1)).map(_.toList).toList, command.timeout)
        _ <- gracefulStop(entities.remove(id).get, command.timeout)
      } yield ()
    }
    Await.result(written.runWith(Sink.ignore), command.timeout)
    Answer("events" -> ids * events, "seconds" -> (System.nanoTime() - started) / 1e9)
  }

  private def write(id: String, groups: Seq[Seq[Event]], timeout: FiniteDuration): Future[Any] =
    groups.foldLeft(Future.successful[Any](0L)) { (before, group) =>
      before.flatMap(_ => entity(id).ask(Entity.Write(group))(Timeout(timeout)))
    }

  private def answered(command: Arguments, message: Any): Any = Await.result(
    entity(command.text("id")).ask(message)(Timeout(command.timeout)),
    command.timeout)

  private def stop(id: String, timeout: FiniteDuration): Unit =
    entities.remove(id).foreach { actor =>
      Await.result(gracefulStop(actor, timeout, PoisonPill), timeout)
    }

  private def entity(id: String): ActorRef =
    entities.getOrElseUpdate(id, system.actorOf(Entity.props(id)))
}
