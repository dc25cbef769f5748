"""Contact of a reduced skin with obstacles."""
