"""The versions of blue/green projections: listed, compared, promoted and dropped by hand."""
