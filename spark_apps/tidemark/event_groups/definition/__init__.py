"""What an event group says, and whether it can be executed."""
