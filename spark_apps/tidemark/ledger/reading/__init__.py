"""Bounded and paged reads of the ledger, for answers about a ledger of any size."""
