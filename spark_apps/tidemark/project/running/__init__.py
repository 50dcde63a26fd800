"""Runs the steps in order: batches, bisection of failing batches, slices, releases, rollups."""
