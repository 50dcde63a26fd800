package tidemark.interop

import java.util.concurrent.atomic.AtomicInteger

import scala.collection.immutable.Seq
import scala.collection.mutable
import scala.concurrent.{ Await, ExecutionContext, Future, Promise }

import akka.Done
import akka.actor.ActorSystem
import akka.actor.typed
import akka.actor.typed.scaladsl.adapter._
import akka.pattern.gracefulStop
import akka.persistence.query.Offset
import akka.persistence.query.typed.EventEnvelope
import akka.persistence.r2dbc.query.scaladsl.R2dbcReadJournal
import akka.projection.{ ProjectionBehavior, ProjectionId }
import akka.projection.eventsourced.scaladsl.EventSourcedProvider
import akka.projection.r2dbc.scaladsl.{ R2dbcHandler, R2dbcProjection, R2dbcSession }

/** Exactly-once projections, which write a row for each event, in several slice ranges at once. */
final class AkkaProjecting(system: ActorSystem) {
  import AkkaProjecting._

  private implicit val typedSystem: typed.ActorSystem[Nothing] = system.toTyped
  import system.dispatcher

  private val running = mutable.Map.empty[Int, Running]

  /** Start a projection in `ranges` ranges, each of which handles at most `limit` events. */
  def start(command: Arguments): Int = {
    val stopped = Promise[Done]()
    val limit = command.intOption("limit").getOrElse(Int.MaxValue)
    val ranges = EventSourcedProvider.sliceRanges(
      typedSystem,
      R2dbcReadJournal.Identifier,
      command.int("ranges"))
    val actors = ranges.map { range =>
      val id = ProjectionId(command.text("name"), s"${range.min}-${range.max}")
      val source = EventSourcedProvider.eventsBySlices[Any](
        typedSystem,
        R2dbcReadJournal.Identifier,
        command.text("entity_type"),
        range.min,
        range.max)
      val left = new AtomicInteger(limit)
      val projection = R2dbcProjection.exactlyOnce[Offset, EventEnvelope[Any]](
        id,
        None,
        source,
        () => new Rows(command.text("table"), id.key, left, stopped.future))
      system.spawnAnonymous(ProjectionBehavior(projection))
    }
    val number = running.keys.maxOption.getOrElse(0) + 1
    running(number) = new Running(actors, stopped)
    number
  }

  /** Stop a projection in all its ranges. */
  def stop(command: Arguments): Answer = {
    val projection = running.remove(command.int("projection")).get
    val ended = projection.actors.map { actor =>
      gracefulStop(actor.toClassic, command.timeout, ProjectionBehavior.Stop)
    }
    projection.stopped.failure(new IllegalStateException("the projection is stopped"))
    Await.result(Future.sequence(ended), command.timeout)
    Answer.nothing
  }
}

object AkkaProjecting {
  private final class Running(
      val actors: Seq[typed.ActorRef[ProjectionBehavior.Command]],
      val stopped: Promise[Done])

  /** Writes a row for each event, until none is left; the next one waits for the end. */
  private final class Rows(table: String, key: String, left: AtomicInteger, end: Future[Done])(
      implicit executor: ExecutionContext)
      extends R2dbcHandler[EventEnvelope[Any]] {
    override def process(session: R2dbcSession, event: EventEnvelope[Any]): Future[Done] =
      if (left.getAndDecrement() <= 0) end
      else
        session
          .updateOne(
            session
              .createStatement(s"INSERT INTO $table VALUES ($$1, $$2, $$3, $$4)")
              .bind(0, key)
              .bind(1, event.persistenceId)
              .bind(2, event.sequenceNr)
              .bind(3, AkkaEntity.text(event.event)))
          .map(_ => Done)
  }
}
