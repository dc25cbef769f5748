"""Session of the viewer, and the character or body that it simulates."""
