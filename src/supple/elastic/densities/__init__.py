"""Energy densities, a file for each material."""
