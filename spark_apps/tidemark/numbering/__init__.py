"""The rule that numbers tagged events, shared by every writer and every check."""
