"""Data Docs of what validate found, and Great Expectations for the suites of users."""
