"""The layer `projections`: compares offsets with sources, and reports work that is not done."""
