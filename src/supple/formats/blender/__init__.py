"""Characters of .blend and .fbx files, through Blender in a separate process."""
