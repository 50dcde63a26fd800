/*---
name: topic_departures
version: 1
source: {kafka-journal: journal-flights}
mode: bucket
target: flights.topic_departures
event: kind STRING, carrier STRING, origin STRING, dep_delay INT
decoders:
  - {serializer-id: 0, manifest: json, kind: json}
---*/

-- Departures per carrier and origin airport, as daily_punctuality counts them, but of the events
-- that `replicate` has brought from Kafka.
SELECT
  time_bucket,
  carrier,
  origin,
  count_if(kind = 'departed') AS departed,
  count_if(kind = 'departed' AND dep_delay > 15) AS delayed,
  count_if(kind = 'cancelled') AS cancelled
FROM events
WHERE kind IN ('departed', 'cancelled')
GROUP BY time_bucket, carrier, origin
