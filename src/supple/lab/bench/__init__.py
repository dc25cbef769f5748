"""`supple bench`."""
