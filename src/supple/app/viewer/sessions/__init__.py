"""The simulation that pages show."""
