"""The layer `projections`: their offsets against their sources, and what they wait for."""
