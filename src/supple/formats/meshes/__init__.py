"""Surface and tet meshes, a file for each format."""
