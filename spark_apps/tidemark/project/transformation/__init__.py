"""Step 5, transform: applies the user's query, function or fold to the accepted events."""
