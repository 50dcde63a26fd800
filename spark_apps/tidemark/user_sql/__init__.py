"""SQL that users write: a SELECT, checks of its rows, and errors in Spark's parsing of both."""
