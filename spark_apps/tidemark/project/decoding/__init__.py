"""Step 4, decode: decodes payloads into the fields that a definition names."""
