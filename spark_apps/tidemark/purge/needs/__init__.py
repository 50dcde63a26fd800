"""What somebody still needs, so that purge must leave it: by source, persistence id and bucket."""
