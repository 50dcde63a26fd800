"""What Spark offers beside its documented API: the only room that reaches into the JVM."""
