"""The common parts of all applications: options, checks before a run, report and exit status."""
