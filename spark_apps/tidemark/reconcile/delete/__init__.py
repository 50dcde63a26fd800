"""Tag views, progress and scanning of some persistence ids or tags, taken away."""
