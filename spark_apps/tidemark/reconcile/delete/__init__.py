"""delete: deletes tag views, progress and scanning of some persistence ids or tags."""
