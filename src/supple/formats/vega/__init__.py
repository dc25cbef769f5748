"""VegaFEM's files."""
