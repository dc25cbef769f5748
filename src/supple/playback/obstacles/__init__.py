"""Obstacles of motions: given in words, moved along paths, and recorded with the frames."""
