"""Pages about results."""
