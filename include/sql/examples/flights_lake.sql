/*---
name: flights_lake
version: 1
source: messages
mode: export
target: flights
event: kind STRING, carrier STRING, flight INT, tail_number STRING, origin STRING, dest STRING,
  scheduled_departure TIMESTAMP, dep_delay INT, arr_delay INT, air_time INT, distance INT
---*/

-- Every event as a row of a table in the lake. Delays and the air time are minutes, the distance
-- is miles.
SELECT
  time_bucket,
  persistence_id,
  sequence_nr,
  timestamp AS at,
  kind,
  carrier,
  flight,
  tail_number,
  origin,
  dest,
  scheduled_departure,
  dep_delay,
  arr_delay,
  air_time,
  distance
FROM events
