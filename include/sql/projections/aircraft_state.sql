/*---
name: aircraft_state
version: 1
source: messages
mode: upsert
target: flights.aircraft_state
event: kind STRING, carrier STRING, flight INT, tail_number STRING, origin STRING, dest STRING
---*/

-- The last known state of each aircraft. After `departed` the airport is where it is heading.
SELECT
  persistence_id,
  sequence_nr,
  tail_number,
  kind,
  carrier,
  flight,
  CASE WHEN kind IN ('departed', 'arrived') THEN dest ELSE origin END AS airport,
  timestamp AS at
FROM events
WHERE entity_type = 'aircraft'
