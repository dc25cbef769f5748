"""`supple view`: an interactive page of a simulated character or elastic body."""
