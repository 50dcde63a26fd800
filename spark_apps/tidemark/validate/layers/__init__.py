"""The layers that validate looks at beside messages and the tag views, one folder for each."""
