"""chain: tag-write, validate and project over one window, in one Spark application."""
