"""Characters of research examples."""
