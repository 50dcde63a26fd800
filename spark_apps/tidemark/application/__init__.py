"""The common parts of all applications: options, preflight, report and exit status."""
