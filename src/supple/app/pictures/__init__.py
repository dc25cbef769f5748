"""Pictures without a graphics card."""
