/*---
name: carrier_totals
version: 1
source: {read-model: daily_punctuality}
mode: rollup
target: flights.carrier_totals
---*/

-- Punctuality of each carrier over all time buckets of daily_punctuality.
SELECT
  carrier,
  sum(departed) AS departed,
  sum(delayed) AS delayed,
  sum(dep_delay_sum) AS dep_delay_sum,
  sum(dep_delay_sum) / nullif(sum(departed), 0) AS dep_delay_avg
FROM daily_punctuality
GROUP BY carrier
