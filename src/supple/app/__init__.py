"""The command line, and what its users see."""
