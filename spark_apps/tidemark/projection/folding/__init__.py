"""Mode `fold`: a state for each persistence id, made by a function of the user's."""
