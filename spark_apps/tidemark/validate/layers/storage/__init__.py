"""The layer `storage`: how long tables keep their rows, against those who have yet to read them."""
