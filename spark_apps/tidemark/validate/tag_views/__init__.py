"""Messages against tag views: what should be there, what is, and the difference."""
