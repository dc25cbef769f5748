"""Writing baked motions to glTF."""
