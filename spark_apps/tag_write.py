"""Build and repair the tag views of a window: tag_views, tag_write_progress, tag_scanning."""

from __future__ import annotations

from tidemark.command_line import tag_write

if __name__ == "__main__":
    tag_write.start()
