"""All access to PostgreSQL: statements by psycopg, bulk reads by Spark's JDBC source."""
