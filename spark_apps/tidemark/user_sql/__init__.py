"""SQL that users write: one SELECT, checks of its rows, and what Spark refuses of them."""
