"""Lists, compares, promotes and drops versions of blue/green projections by hand."""
