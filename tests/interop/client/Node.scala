package tidemark.interop

import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.Await
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import com.typesafe.config.{ Config, ConfigFactory }
import org.apache.pekko.actor.ActorSystem

/** One node of a Pekko application: an actor system of its own on the plugin's settings. */
final class Node(settings: Map[String, Any]) extends OneNode {
  private val system = ActorSystem(
    s"node-${Node.started.incrementAndGet()}",
    ConfigFactory.load(ConfigFactory.parseMap(settings.asJava).withFallback(Node.base)))

  private val writing = new Writing(system)
  private val reading = new Reading(system)
  private lazy val tools = new Tools(system)

  def perform(command: Arguments): Any = command.text("do") match {
    case "persist" | "batch" | "snapshot" | "delete_messages" | "recover" | "recovered_from" |
        "crash" | "stop" =>
      writing.perform(command)
    case "current" | "live_start" | "live_poll" | "live_stop" => reading.perform(command)
    case "reconciliation"                                     => tools.reconcile(command)
    case "cleanup"                                            => tools.cleanUp(command)
    case other => throw new IllegalArgumentException(s"no such command: $other")
  }

  def close(): Unit = Await.result(system.terminate(), 60.seconds)
}

object Node {
  private val started = new AtomicInteger()

  /** Where Cassandra is: the variables from which Tidemark's own applications read it. */
  private def connection: Map[String, Any] = Map(
    "basic.contact-points" -> sys.env("TIDEMARK_CASSANDRA_HOSTS").split(",").toList.asJava,
    "basic.load-balancing-policy.local-datacenter" -> "datacenter1",
    "basic.request.timeout" -> "20 s",
    "advanced.auth-provider.class" -> "PlainTextAuthProvider",
    "advanced.auth-provider.username" -> sys.env("TIDEMARK_CASSANDRA_USERNAME"),
    "advanced.auth-provider.password" -> sys.env("TIDEMARK_CASSANDRA_PASSWORD"))

  private def base: Config =
    ConfigFactory
      .parseString("""
        pekko {
          loglevel = WARNING
          stdout-loglevel = WARNING
          log-dead-letters = off
          coordinated-shutdown.run-by-jvm-shutdown-hook = off
          jvm-shutdown-hooks = off
          persistence.journal.plugin = "pekko.persistence.cassandra.journal"
          persistence.snapshot-store.plugin = "pekko.persistence.cassandra.snapshot"
          persistence.cassandra.cleanup.dry-run = false
        }
        """)
      .withFallback(ConfigFactory.parseMap(connection.asJava).atPath("datastax-java-driver"))
}
