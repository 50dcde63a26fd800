"""The engine for events with few rows: the driver sends statements and keeps before-images."""
