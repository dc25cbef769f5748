"""`supple view`: a page with a character or a body that lives, to play, pose and pull."""
