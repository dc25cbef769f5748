"""Feel of the flesh: stiffness and damping at run time, and the anatomy files that keep them."""
