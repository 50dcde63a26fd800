"""What every application does around its work: options, preflight, report, exit status."""
