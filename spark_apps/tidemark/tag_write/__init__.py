"""tag-write: the rows of tag_views, then tag_write_progress, then tag_scanning."""
