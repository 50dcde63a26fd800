"""Great Expectations' verdict on the findings of validate and on users' suites; Data Docs."""
