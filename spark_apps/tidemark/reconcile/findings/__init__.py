"""The differences between messages and tag views."""
