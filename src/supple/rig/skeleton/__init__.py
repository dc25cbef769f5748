"""Joint trees, skinning and inverse kinematics."""
