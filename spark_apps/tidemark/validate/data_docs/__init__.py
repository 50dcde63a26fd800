"""The verdict of Great Expectations on what validate found and on users' suites; Data Docs."""
