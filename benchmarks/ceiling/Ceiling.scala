package tidemark.benchmarks

import java.io.File
import java.lang.Boolean.{FALSE, TRUE}
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Collections, UUID}
import javax.management.{MBeanServerConnection, ObjectName}
import javax.management.remote.{JMXConnectorFactory, JMXServiceURL}

import org.apache.cassandra.io.sstable.CQLSSTableWriter

/** How fast tag-view rows could be written if nothing but Cassandra's own file format were in the
  * way: rows made in memory, sorted and written as sstables by one thread, then imported.
  *
  * `Ceiling SCHEMA_FILE DIRECTORY JMX_PORT KEYSPACE TABLE IDS EVENTS BUCKETS`; prints the seconds of
  * writing and of importing.
  */
object Ceiling {
  private val HourMs = 3600000L
  private val Day = 24 * HourMs
  private val GregorianOffset = 0x01b21dd213814000L
  private val BufferMiB = 64
  private val Tags = List("red", "blue")

  def main(arguments: Array[String]): Unit = {
    val texts = arguments.iterator
    val (schemaFile, directory, jmxPort) = (texts.next(), texts.next(), texts.next())
    val (keyspace, table) = (texts.next(), texts.next())
    val (ids, events, buckets) = (texts.next(), texts.next(), texts.next())
    val schema = new String(java.nio.file.Files.readAllBytes(new File(schemaFile).toPath), UTF_8)
    val started = System.nanoTime
    write(schema, directory, keyspace, table, ids.toInt, events.toInt, buckets.toInt)
    val written = System.nanoTime
    importInto(jmxPort.toInt, keyspace, table, directory)
    val imported = System.nanoTime
    println(s"${(written - started) / 1e9} ${(imported - written) / 1e9}")
    // The tools of Cassandra leave threads behind.
    System.exit(0)
  }

  private def write(
      schema: String,
      directory: String,
      keyspace: String,
      table: String,
      ids: Int,
      events: Int,
      buckets: Int
  ): Unit = {
    val writer = CQLSSTableWriter.builder
      .inDirectory(directory)
      .forTable(schema)
      .withMaxSSTableSizeInMiB(BufferMiB)
      .using(
        s"INSERT INTO $keyspace.$table (tag_name, timebucket, timestamp, persistence_id," +
          " tag_pid_sequence_nr, sequence_nr, writer_uuid, ser_id, ser_manifest, event_manifest," +
          " event) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
      )
      .build()
    val total = ids.toLong * events
    val end = System.currentTimeMillis / Day * Day
    val start = end - buckets * HourMs
    for (i <- 0L until total; tag <- Tags) {
      val epochMs = start + i * buckets * HourMs / total
      val number = i / ids + 1
      writer.addRow(
        tag,
        java.lang.Long.valueOf(epochMs - epochMs % HourMs),
        timeuuid(epochMs * 10000 + i % 10000),
        s"p-${i % ids}",
        java.lang.Long.valueOf(number),
        java.lang.Long.valueOf(number),
        "writer",
        Integer.valueOf(20),
        "",
        "",
        payload(i)
      )
    }
    writer.close()
  }

  private def payload(i: Long): ByteBuffer = {
    val bytes = Array.fill[Byte](100)('x')
    val text = s"event $i".getBytes(UTF_8)
    System.arraycopy(text, 0, bytes, 0, text.length)
    ByteBuffer.wrap(bytes)
  }

  private def timeuuid(unixTicks: Long): UUID = {
    val ticks = unixTicks + GregorianOffset
    val high = (ticks << 32) | ((ticks >>> 16) & 0xffff0000L) | 0x1000L | (ticks >>> 48)
    new UUID(high, 0x8001000000000001L)
  }

  private def importInto(port: Int, keyspace: String, table: String, directory: String): Unit = {
    val url = new JMXServiceURL(s"service:jmx:rmi:///jndi/rmi://127.0.0.1:$port/jmxrmi")
    val connector = JMXConnectorFactory.connect(url)
    try {
      val name = s"org.apache.cassandra.db:type=Tables,keyspace=$keyspace,table=$table"
      val failed = call(connector.getMBeanServerConnection, new ObjectName(name), directory)
      if (!failed.isEmpty) throw new IllegalStateException(s"not imported: $failed")
    } finally connector.close()
  }

  /** As `nodetool import --copy-data` without verification, which the writer's own files need not. */
  private def call(
      server: MBeanServerConnection,
      name: ObjectName,
      directory: String
  ): java.util.List[_] = {
    val flags = Array[Object](TRUE, TRUE, FALSE, FALSE, TRUE, FALSE, TRUE)
    val arguments = Array[Object](Collections.singleton(directory)) ++ flags
    val signature = Array("java.util.Set") ++ flags.map(_ => "boolean")
    server
      .invoke(name, "importNewSSTables", arguments, signature)
      .asInstanceOf[java.util.List[_]]
  }
}
