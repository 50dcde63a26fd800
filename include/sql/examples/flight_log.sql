/*---
name: flight_log
version: 1
source: messages
mode: append
target: flights.flight_log
event: kind STRING, carrier STRING, flight INT, tail_number STRING,
  origin STRING, dest STRING, dep_delay INT, arr_delay INT
---*/

-- What happened at an airport on a day, in the order of time: an arrival is where it landed.
-- The delay is minutes, negative when early.
SELECT
  IF(kind = 'arrived', dest, origin) AS airport,
  CAST(timestamp AS DATE) AS day,
  timestamp AS at,
  persistence_id,
  sequence_nr,
  kind,
  carrier,
  flight,
  tail_number,
  IF(kind = 'arrived', origin, dest) AS other_airport,
  coalesce(dep_delay, arr_delay) AS delay
FROM events
WHERE kind <> 'scheduled'
