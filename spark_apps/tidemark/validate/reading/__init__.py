"""The reads of validate: the complete journal, some persistence ids, or only new events."""
