"""The command lines of the applications, and the command `tidemark`, which has all of them."""
