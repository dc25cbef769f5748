"""Session of the viewer, and the subjects that it steps."""
