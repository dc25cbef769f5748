"""Things in the scene of a page."""
