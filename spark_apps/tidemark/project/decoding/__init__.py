"""Step 4, decode: payloads to the fields that a definition names."""
