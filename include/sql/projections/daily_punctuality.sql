/*---
name: daily_punctuality
version: 1
source:
  tags: [EWR, JFK, LGA]
mode: bucket
target: flights.daily_punctuality
event: kind STRING, carrier STRING, origin STRING, dep_delay INT, arr_delay INT
---*/

-- Punctuality per carrier and origin airport. Delays are minutes, negative when early; a
-- departure is delayed when it left more than 15 minutes late.
SELECT
  time_bucket,
  carrier,
  origin,
  count_if(kind = 'departed') AS departed,
  count_if(kind = 'departed' AND dep_delay > 15) AS delayed,
  count_if(kind = 'cancelled') AS cancelled,
  count_if(kind = 'arrived') AS arrived,
  coalesce(sum(dep_delay) FILTER (WHERE kind = 'departed'), 0) AS dep_delay_sum,
  avg(dep_delay) FILTER (WHERE kind = 'departed') AS dep_delay_avg,
  coalesce(sum(arr_delay) FILTER (WHERE kind = 'arrived'), 0) AS arr_delay_sum
FROM events
WHERE kind IN ('departed', 'arrived', 'cancelled')
GROUP BY time_bucket, carrier, origin
