"""Contact of a soft skeleton with obstacles, objects and itself."""
