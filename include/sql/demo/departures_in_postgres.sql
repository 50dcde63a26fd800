/*---
name: departures_in_postgres
version: 1
source: messages
mode: bucket
target: postgres://embedded/public.departures
event: kind STRING, carrier STRING, origin STRING, dep_delay INT
---*/

-- The same departures as in daily_punctuality, in a table of PostgreSQL.
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
