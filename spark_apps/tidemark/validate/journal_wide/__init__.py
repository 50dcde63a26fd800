"""What a journal shows as a whole, in no time bucket: all of these warn."""
