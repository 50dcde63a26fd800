package tidemark.interop

import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.Await
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import com.typesafe.config.{ Config, ConfigFactory }
import org.apache.pekko.actor.ActorSystem

/** One node of a Pekko application: an actor system of its own on the plugin's settings. */
final class Node(settings: Map[String, Any]) {
  private val system = ActorSystem(
    s"node-${Node.started.incrementAndGet()}",
    ConfigFactory.load(ConfigFactory.parseMap(settings.asJava).withFallback(Node.base)))

  val writing = new Writing(system)
  val reading = new Reading(system)
  lazy val tools = new Tools(system)

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
