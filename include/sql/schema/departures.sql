-- The read model of the demo in PostgreSQL; `project.py --dry-run --show` prints this statement.
CREATE TABLE IF NOT EXISTS public.departures (
  time_bucket bigint NOT NULL,
  carrier text NOT NULL,
  origin text NOT NULL,
  departed bigint,
  delayed bigint,
  cancelled bigint,
  PRIMARY KEY (time_bucket, carrier, origin)
);
