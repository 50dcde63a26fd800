"""The tasks of the application `chain`, and of an order of several of its runs."""
