"""The command `supple`."""
