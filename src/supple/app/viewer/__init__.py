"""`supple view`: a page with a character that lives, to play, pose and poke."""
