"""What validate looks at: the whole journal, or only what is new."""
