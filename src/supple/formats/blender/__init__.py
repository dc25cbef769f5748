"""Characters of .blend and .fbx files, through Blender in a process of its own."""
