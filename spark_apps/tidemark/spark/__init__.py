"""Spark beyond its documented API: the only package that reaches into the JVM."""
