"""The answers of the command line and of the page: for each subject its summary, or its rows."""
