"""Reading characters from glTF."""
