"""Recording of free parameters."""
