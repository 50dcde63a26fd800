"""The rule that gives tagged events their numbers, for all that writes or checks them."""
