"""Tag-view rows of events that were deleted from messages, taken away."""
