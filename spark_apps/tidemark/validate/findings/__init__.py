"""What validate reports: the checks, and the findings of each in frames of keys."""
