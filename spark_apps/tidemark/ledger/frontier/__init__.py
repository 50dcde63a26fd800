"""What the ledger is done with, in few words: read instead of the rows of all pieces."""
