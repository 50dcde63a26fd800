package tidemark.interop

import java.net.URI
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.Await
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import akka.actor.ActorSystem
import com.typesafe.config.{ Config, ConfigFactory }

/** One node of an Akka application: an actor system of its own on the R2DBC plugin's settings. */
final class AkkaNode(settings: Map[String, Any]) extends OneNode {
  private val system = ActorSystem(
    s"node-${AkkaNode.started.incrementAndGet()}",
    ConfigFactory.load(ConfigFactory.parseMap(settings.asJava).withFallback(AkkaNode.base)))

  private val writing = new AkkaWriting(system)
  private val reading = new AkkaReading(system)
  private val projecting = new AkkaProjecting(system)

  def perform(command: Arguments): Any = command.text("do") match {
    case "persist" | "stop" | "cleanup" => writing.perform(command)
    case "current"                      => reading.current(command)
    case "project"                      => projecting.start(command)
    case "stop_projection"              => projecting.stop(command)
    case other => throw new IllegalArgumentException(s"no such command: $other")
  }

  def close(): Unit = Await.result(system.terminate(), 60.seconds)
}

object AkkaNode {
  private val started = new AtomicInteger()

  /** Where PostgreSQL is: the variables from which Tidemark's own applications read it. */
  private def connection: Map[String, Any] = {
    val url = new URI(sys.env("TIDEMARK_POSTGRES_EMBEDDED_URL"))
    Map(
      "host" -> url.getHost,
      "port" -> url.getPort,
      "database" -> url.getPath.stripPrefix("/"),
      "user" -> url.getUserInfo,
      "password" -> sys.env("TIDEMARK_POSTGRES_EMBEDDED_PASSWORD"),
      "initial-size" -> 1,
      "acquire-timeout" -> "60 s",
      "connect-timeout" -> "60 s")
  }

  private def base: Config =
    ConfigFactory
      .parseString("""
        akka {
          loglevel = WARNING
          stdout-loglevel = WARNING
          log-dead-letters = off
          coordinated-shutdown.run-by-jvm-shutdown-hook = off
          jvm-shutdown-hooks = off
          persistence.journal.plugin = "akka.persistence.r2dbc.journal"
          persistence.snapshot-store.plugin = "akka.persistence.r2dbc.snapshot"
          persistence.r2dbc.journal.publish-events = off
          # The tests share two cores with others.
          persistence.journal-plugin-fallback {
            circuit-breaker.call-timeout = 60 s
            recovery-event-timeout = 60 s
          }
          persistence.snapshot-store-plugin-fallback.circuit-breaker.call-timeout = 60 s
        }
        """)
      .withFallback(
        ConfigFactory.parseMap(connection.asJava).atPath("akka.persistence.r2dbc.connection-factory"))
}
