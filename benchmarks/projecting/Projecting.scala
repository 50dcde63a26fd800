package tidemark.benchmarks

import java.util.UUID
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import scala.collection.immutable.Seq
import scala.collection.mutable
import scala.concurrent.{ Await, ExecutionContext, Future, Promise }
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import com.datastax.oss.driver.api.core.uuid.Uuids
import com.typesafe.config.ConfigFactory
import org.apache.pekko.Done
import org.apache.pekko.actor.ActorSystem
import org.apache.pekko.actor.typed
import org.apache.pekko.actor.typed.scaladsl.adapter._
import org.apache.pekko.persistence.cassandra.query.scaladsl.CassandraReadJournal
import org.apache.pekko.persistence.query.{ Offset, TimeBasedUUID }
import org.apache.pekko.projection.{ Projection, ProjectionBehavior, ProjectionId }
import org.apache.pekko.projection.cassandra.scaladsl.CassandraProjection
import org.apache.pekko.projection.eventsourced.EventEnvelope
import org.apache.pekko.projection.eventsourced.scaladsl.EventSourcedProvider
import org.apache.pekko.projection.scaladsl.{ Handler, SourceProvider }
import org.apache.pekko.stream.connectors.cassandra.scaladsl.{ CassandraSession, CassandraSessionRegistry }

/**
 * Pekko's own projections of some tags into the read model `sizes`: the number of events and their bytes by
 * time bucket and persistence id. They end when `total` events have been handled. No persistence id may have
 * events of two of the tags.
 *
 * Arguments: keyspace, first time bucket (yyyyMMdd'T'HH:mm), tags with commas between them, atLeastOnce or
 * grouped, total. The handlers keep the totals in memory and write them as they are: nothing is read back, which is the
 * cheapest that a handler can do.
 */
object Projecting {
  type Envelope = EventEnvelope[AnyRef]

  def main(arguments: Array[String]): Unit = {
    val (keyspace, first) = (arguments(0), arguments(1))
    val (tags, kind, total) = (arguments(2).split(",").toSeq, arguments(3), arguments(4))
    val classic = ActorSystem("projecting", ConfigFactory.load(settings(keyspace, first)))
    implicit val system: typed.ActorSystem[Nothing] = classic.toTyped
    implicit val executor: ExecutionContext = system.executionContext
    Await.result(CassandraProjection.createTablesIfNotExists(), 1.minute)
    val session = CassandraSessionRegistry(system).sessionFor("pekko.projection.cassandra.session-config")
    val handled = new Handled(total.toLong)
    val actors = tags.map { tag =>
      val sizes = new Sizes(session, keyspace, handled)
      classic.spawn(ProjectionBehavior(projection(kind, tag, sizes)), s"$kind-$tag")
    }
    Await.result(handled.all, 3.hours)
    actors.foreach(_ ! ProjectionBehavior.Stop)
    Await.result(classic.terminate(), 1.minute)
    println(s"""{"events": ${handled.count}}""")
    System.exit(0)
  }

  private def projection(kind: String, tag: String, sizes: Sizes)(implicit
      system: typed.ActorSystem[_]): Projection[Envelope] = {
    val source: SourceProvider[Offset, Envelope] =
      EventSourcedProvider.eventsByTag[AnyRef](system, CassandraReadJournal.Identifier, tag)
    val id = ProjectionId(kind, tag)
    kind match {
      case "atLeastOnce" =>
        CassandraProjection.atLeastOnce[Offset, Envelope](id, source, () => new OneByOne(sizes))
      case "grouped" =>
        CassandraProjection.groupedWithin[Offset, Envelope](id, source, () => new InGroups(sizes))
    }
  }

  /** Where Cassandra is and who logs in comes from the variables of Tidemark's applications. */
  private def settings(keyspace: String, first: String) = {
    val driver = Map[String, Any](
      "basic.contact-points" -> sys.env("TIDEMARK_CASSANDRA_HOSTS").split(",").toList.asJava,
      "basic.load-balancing-policy.local-datacenter" -> "datacenter1",
      "basic.request.timeout" -> "20 s",
      "advanced.auth-provider.class" -> "PlainTextAuthProvider",
      "advanced.auth-provider.username" -> sys.env("TIDEMARK_CASSANDRA_USERNAME"),
      "advanced.auth-provider.password" -> sys.env("TIDEMARK_CASSANDRA_PASSWORD"))
    val pekko = Map[String, Any](
      "loglevel" -> "WARNING",
      "persistence.cassandra.journal.keyspace" -> keyspace,
      "persistence.cassandra.events-by-tag.bucket-size" -> "Hour",
      "persistence.cassandra.events-by-tag.first-time-bucket" -> first,
      "projection.cassandra.offset-store.keyspace" -> s"${keyspace}_pekko")
    ConfigFactory
      .parseMap(pekko.asJava)
      .atPath("pekko")
      .withFallback(ConfigFactory.parseMap(driver.asJava).atPath("datastax-java-driver"))
  }
}

/** How many events went into the read model, of all projections together. */
final class Handled(total: Long) {
  private val handled = new AtomicLong
  private val ended = Promise[Done]()

  def all: Future[Done] = ended.future
  def count: Long = handled.get
  def add(events: Int): Unit = if (handled.addAndGet(events.toLong) >= total) ended.trySuccess(Done)
}

/** What one projection writes of the read model: totals by time bucket and persistence id. */
final class Sizes(session: CassandraSession, keyspace: String, handled: Handled)(implicit
    executor: ExecutionContext) {
  private val hour = TimeUnit.HOURS.toMillis(1)
  private val totals = mutable.Map.empty[(Long, String), (Long, Long)]
  private val statement = session.prepare(
    s"INSERT INTO ${keyspace}_pekko.sizes (time_bucket, persistence_id, events, bytes) VALUES (?, ?, ?, ?)")

  /** Add the events, then write each row that they changed, all at once. */
  def write(envelopes: Seq[Projecting.Envelope]): Future[Done] = {
    val changed = envelopes.map(add).distinct
    for {
      _ <- Future.traverse(changed)(row)
    } yield {
      handled.add(envelopes.size)
      Done
    }
  }

  private def add(envelope: Projecting.Envelope): (Long, String) = {
    val millis = Uuids.unixTimestamp(uuidOf(envelope.offset))
    val key = (millis - millis % hour, envelope.persistenceId)
    val (events, bytes) = totals.getOrElse(key, (0L, 0L))
    totals(key) = (events + 1, bytes + sizeOf(envelope.event))
    key
  }

  private def row(key: (Long, String)): Future[Done] = {
    val (events, bytes) = totals(key)
    val (bucket, id) = key
    statement.flatMap { prepared =>
      session.executeWrite(
        prepared.bind(Long.box(bucket), id, Long.box(events), Long.box(bytes)))
    }
  }

  private def uuidOf(offset: Offset): UUID = offset match {
    case TimeBasedUUID(value) => value
    case other                => throw new IllegalStateException(s"an offset by tag is a timeuuid, not $other")
  }

  private def sizeOf(event: AnyRef): Long = event match {
    case bytes: Array[Byte] => bytes.length.toLong
    case other              => other.toString.getBytes("UTF-8").length.toLong
  }
}

private final class OneByOne(sizes: Sizes) extends Handler[Projecting.Envelope] {
  override def process(envelope: Projecting.Envelope): Future[Done] = sizes.write(Seq(envelope))
}

private final class InGroups(sizes: Sizes) extends Handler[Seq[Projecting.Envelope]] {
  override def process(group: Seq[Projecting.Envelope]): Future[Done] = sizes.write(group)
}
