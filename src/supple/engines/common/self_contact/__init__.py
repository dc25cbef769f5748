"""Contact of the skin with itself, beyond what overlaps in the rig's own pose."""
