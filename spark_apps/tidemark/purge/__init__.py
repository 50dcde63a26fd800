"""purge: deletes old data that no reader needs any more, as the policies say."""
