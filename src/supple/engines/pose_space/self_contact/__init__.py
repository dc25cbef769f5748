"""Contact of the skin with itself in reduced coordinates."""
