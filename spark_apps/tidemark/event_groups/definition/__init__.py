"""The definition of an event group, and whether the group can be executed."""
