"""The operator's page: the state of the system, its JSON API, and orders of runs."""
