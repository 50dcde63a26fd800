"""What is done by hand: status, pause, offsets, clear, releases."""
