"""`supple info`: descriptions of files."""
