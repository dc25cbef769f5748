"""Elastic bodies from meshes: `supple stvk`."""
