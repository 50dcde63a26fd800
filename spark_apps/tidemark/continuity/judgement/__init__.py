"""The verdict of Great Expectations on what validate found, and the pages that show it."""
