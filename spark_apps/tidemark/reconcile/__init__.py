"""reconcile: lists, checks, repairs, deletes, rebuilds, truncates and re-buckets tag views."""
