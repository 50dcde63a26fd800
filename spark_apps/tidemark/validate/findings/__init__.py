"""The checks of validate, and the findings of each check as frames of keys."""
