"""propagate-deletes: deletes tag-view rows of events that were deleted from messages."""
