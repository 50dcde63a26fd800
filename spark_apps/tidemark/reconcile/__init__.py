"""reconcile: list, check, repair, delete, rebuild, truncate and re-bucket the tag views."""
