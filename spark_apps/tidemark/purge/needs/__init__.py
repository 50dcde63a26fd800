"""The needs of readers, which purge must keep: by source, persistence id and time bucket."""
