package tidemark.benchmarks

import java.net.URI
import java.util.concurrent.atomic.AtomicLong

import scala.collection.immutable.{ IndexedSeq, Seq }
import scala.concurrent.{ Await, ExecutionContext, Future, Promise }
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import akka.Done
import akka.actor.ActorSystem
import akka.actor.typed
import akka.actor.typed.scaladsl.adapter._
import akka.pattern.gracefulStop
import akka.persistence.query.Offset
import akka.persistence.query.typed.EventEnvelope
import akka.persistence.r2dbc.query.scaladsl.R2dbcReadJournal
import akka.projection.{ Projection, ProjectionBehavior, ProjectionId }
import akka.projection.eventsourced.scaladsl.EventSourcedProvider
import akka.projection.r2dbc.scaladsl.{ R2dbcHandler, R2dbcProjection, R2dbcSession }
import akka.projection.scaladsl.SourceProvider
import com.typesafe.config.ConfigFactory
import io.r2dbc.spi.Statement

/**
 * Projections of akka-projection-r2dbc of the events of the entity type Order into a table with the last event of each
 * persistence id: an upsert for each event, in the transaction of its offset. They end when `total` events have been
 * handled.
 *
 * Arguments: schema, table, exactlyOnce or groupedWithin, number of slice ranges, total.
 */
object R2dbcProjecting {
  type Envelope = EventEnvelope[String]

  def main(arguments: Array[String]): Unit = {
    val (schema, table, kind) = (arguments(0), arguments(1), arguments(2))
    val (ranges, total) = (arguments(3).toInt, arguments(4).toLong)
    val classic = ActorSystem("projecting", ConfigFactory.load(settings(schema)))
    implicit val system: typed.ActorSystem[Nothing] = classic.toTyped
    implicit val executor: ExecutionContext = system.executionContext
    val latest = new Latest(s"$schema.$table", total)
    val actors = EventSourcedProvider.sliceRanges(system, R2dbcReadJournal.Identifier, ranges).map {
      range =>
        val id = ProjectionId(kind, s"${range.min}-${range.max}")
        val source = EventSourcedProvider.eventsBySlices[String](
          system,
          R2dbcReadJournal.Identifier,
          "Order",
          range.min,
          range.max)
        classic.spawnAnonymous(ProjectionBehavior(projection(kind, id, source, latest)))
    }
    Await.result(latest.all, 3.hours)
    // The last transactions are committed before the projections have ended.
    val ended = actors.map { actor =>
      gracefulStop(actor.toClassic, 1.minute, ProjectionBehavior.Stop)
    }
    Await.result(Future.sequence(ended), 1.minute)
    Await.result(classic.terminate(), 1.minute)
    println(s"""{"events": ${latest.count}}""")
    System.exit(0)
  }

  private def projection(
      kind: String,
      id: ProjectionId,
      source: SourceProvider[Offset, Envelope],
      latest: Latest)(implicit system: typed.ActorSystem[_]): Projection[Envelope] = {
    implicit val executor: ExecutionContext = system.executionContext
    kind match {
      case "exactlyOnce" =>
        R2dbcProjection.exactlyOnce[Offset, Envelope](id, None, source, () => new EachEvent(latest))
      case "groupedWithin" =>
        R2dbcProjection.groupedWithin[Offset, Envelope](id, None, source, () => new EachGroup(latest))
    }
  }

  /** Where PostgreSQL is and who logs in comes from the variables of Tidemark's applications. */
  private def settings(schema: String) = {
    val url = new URI(sys.env("TIDEMARK_POSTGRES_EMBEDDED_URL"))
    val connection = Map[String, Any](
      "host" -> url.getHost,
      "port" -> url.getPort,
      "database" -> url.getPath.stripPrefix("/"),
      "user" -> url.getUserInfo,
      "password" -> sys.env("TIDEMARK_POSTGRES_EMBEDDED_PASSWORD"))
    val akka = Map[String, Any](
      "akka.loglevel" -> "WARNING",
      "akka.stdout-loglevel" -> "WARNING",
      "akka.persistence.r2dbc.schema" -> schema,
      "akka.projection.r2dbc.offset-store.schema" -> schema)
    ConfigFactory
      .parseMap(akka.asJava)
      .withFallback(
        ConfigFactory.parseMap(connection.asJava).atPath("akka.persistence.r2dbc.connection-factory"))
  }
}

/** The read model, and how many events went into it. */
final class Latest(table: String, total: Long) {
  private val handled = new AtomicLong
  private val ended = Promise[Done]()
  private val upsert = s"INSERT INTO $table (persistence_id, sequence_nr, body) VALUES ($$1, $$2, $$3)" +
    " ON CONFLICT (persistence_id) DO UPDATE SET sequence_nr = excluded.sequence_nr, body = excluded.body"

  def all: Future[Done] = ended.future
  def count: Long = handled.get

  def statement(session: R2dbcSession, envelope: R2dbcProjecting.Envelope): Statement =
    session
      .createStatement(upsert)
      .bind(0, envelope.persistenceId)
      .bind(1, envelope.sequenceNr)
      .bind(2, envelope.event)

  def add(events: Int): Done = {
    if (handled.addAndGet(events.toLong) >= total) ended.trySuccess(Done)
    Done
  }
}

private final class EachEvent(latest: Latest)(implicit executor: ExecutionContext)
    extends R2dbcHandler[R2dbcProjecting.Envelope] {
  override def process(session: R2dbcSession, envelope: R2dbcProjecting.Envelope): Future[Done] =
    session.updateOne(latest.statement(session, envelope)).map(_ => latest.add(1))
}

private final class EachGroup(latest: Latest)(implicit executor: ExecutionContext)
    extends R2dbcHandler[Seq[R2dbcProjecting.Envelope]] {
  override def process(
      session: R2dbcSession,
      group: Seq[R2dbcProjecting.Envelope]): Future[Done] = {
    val statements: IndexedSeq[Statement] = group.map(latest.statement(session, _)).toIndexedSeq
    session.update(statements).map(_ => latest.add(group.size))
  }
}
