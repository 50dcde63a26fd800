"""Measurements, side by side in one run. `make bench`; benchmarks/README.md has the figures."""
