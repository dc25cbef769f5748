"""The one simulation that all pages show."""
