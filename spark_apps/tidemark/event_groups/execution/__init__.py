"""The execution of groups: waves of statements, and the way back."""
