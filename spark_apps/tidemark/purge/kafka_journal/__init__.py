"""Purges kafka-journal's expired journals by Purge records, as upstream does."""
