"""Step 5, transform: the user's query, function or fold over the accepted events."""
