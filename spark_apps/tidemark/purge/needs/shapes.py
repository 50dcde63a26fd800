"""The frames of needs."""

from __future__ import annotations

from tidemark.spark.shapes import Shape

ID: Shape = {"persistence_id": "string"}
EVENT_NEEDS: Shape = {**ID, "needed_from": "bigint", "reader": "string"}
"""The lowest sequence nr from which some reader needs events of a persistence id, and that reader.
No reader needs a persistence id without a row."""
FIRSTS: Shape = {**ID, "next_number": "bigint"}
"""One more than the highest sequence nr of a persistence id, and further columns `first_<moment>`:
its lowest sequence nr in the time buckets from that moment (epoch ms) on."""
TOPIC_EVENTS: Shape = {
    "topic": "string",
    **ID,
    "sequence_nr": "bigint",
    "ticks": "bigint",
    "time_bucket": "bigint",
    "partition": "int",
    "offset": "bigint",
}
"""Events of kafka-journal that readers see, with the Kafka record of each."""
TOPIC_NEEDS: Shape = {"topic": "string", **EVENT_NEEDS}
"""EVENT_NEEDS of the journals of topics."""
