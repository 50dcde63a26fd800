"""The state of the system: one read model for the command line, a page and programs; no Spark.

Every answer is bounded for a journal and ledger of any size: a page of at most MOST rows, read by a
bounded number of requests. Values that are not stored are `unknown`, with the reason.
"""
