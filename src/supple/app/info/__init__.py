"""`supple info`."""
