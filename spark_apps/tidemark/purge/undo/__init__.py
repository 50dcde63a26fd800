"""The way back: what a deletion has taken is written again from what was saved before."""
