"""The comparison of messages with tag views: expected rows, existing rows, and the differences."""
