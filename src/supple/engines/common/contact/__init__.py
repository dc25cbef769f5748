"""Contact of characters: colliders, free rigid objects, penalty forces, and readings.

An engine adds only how a force on its skin becomes a force on its coordinates:

- `colliders.ColliderShapes` has obstacles, objects and parts of a body as tables of shapes, in the
  world and in a root's frame; `table_distance` and `signed_distance` measure depths and normals.
- `free_objects.FreeObjects` moves rigid objects. A contact of the skin with one is a line: √s times
  the derivative of its depth by the engine's coordinates (`add_line`). `condense` substitutes the
  objects' motion into the engine's contact stiffness and force; `finish` moves them by the opposite
  of the forces on the skin.
- `readings.Contacts` is the record of the contacts of a step.
"""
