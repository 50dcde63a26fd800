"""The settings by server, all parts of `tidemark.settings`."""
