"""Reads a projection's file: the header, the query or function, its checks. Needs no Spark."""
