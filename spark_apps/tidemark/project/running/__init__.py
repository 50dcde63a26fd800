"""The steps in their order: batches, bisection of what fails, slices, releases."""
