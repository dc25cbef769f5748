"""Writing baked motions to USD."""
