"""Deformers: bends, twists, lattices, wires, blend shapes, pose-space deformation."""
