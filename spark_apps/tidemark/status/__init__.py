"""The state of the system: one read model for the command line, a page and programs; no Spark.

Every answer is bounded, whatever the journal and the ledger hold: a page of at most MOST rows, read
by a bounded number of requests. What no stored row says is `unknown`, with the reason.
"""
