"""Groups that have ended, once more in other keyspaces, from what is stored of them."""
