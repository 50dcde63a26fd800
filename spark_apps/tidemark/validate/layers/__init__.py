"""The layers that validate checks besides messages and the tag views, one folder for each."""
