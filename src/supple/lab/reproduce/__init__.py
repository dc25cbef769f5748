"""`supple reproduce`."""
