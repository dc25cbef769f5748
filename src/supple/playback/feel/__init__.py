"""Feel of the flesh: stiffness at run time, and how far flesh swings."""
