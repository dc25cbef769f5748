"""A USD stage of two clips, and what USD's own code makes of a file."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
from pxr import Gf, Usd, UsdGeom, UsdSkel

TWO_CLIPS = """#usda 1.0
( upAxis = "Z"
  metersPerUnit = 0.01
  timeCodesPerSecond = 48 )
class "Original"
{
    def SkelRoot "Root"
    {
        def Skeleton "Skel" (prepend apiSchemas = ["SkelBindingAPI"])
        {
            uniform token[] joints = ["hip", "hip/top"]
            uniform matrix4d[] bindTransforms = [
                ((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1)),
                ((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,50,1))]
            uniform matrix4d[] restTransforms = [
                ((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1)),
                ((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,50,1))]
            rel skel:animationSource = </Original/Root/Stand>
        }
        def SkelAnimation "Stand"
        {
            uniform token[] joints = ["hip", "hip/top"]
            float3[] translations.timeSamples = { 0: [(0,0,0), (0,0,50)], 24: [(0,0,9), (0,0,50)] }
            quatf[] rotations = [(1,0,0,0), (1,0,0,0)]
            half3[] scales = [(1,1,1), (1,1,1)]
        }
        def SkelAnimation "Nod"
        {
            uniform token[] joints = ["hip", "hip/top"]
            float3[] translations = [(0,0,0), (0,0,50)]
            quatf[] rotations.timeSamples = {
                48: [(1,0,0,0), (1,0,0,0)],
                72: [(1,0,0,0), (0.7071,0.7071,0,0)],
                96: [(1,0,0,0), (1,0,0,0)] }
            half3[] scales = [(1,1,1), (1,1,1)]
        }
        def Mesh "Post" (prepend apiSchemas = ["SkelBindingAPI"])
        {
            rel skel:skeleton = </Original/Root/Skel>
            matrix4d primvars:skel:geomBindTransform = ((0,2,0,0),(-2,0,0,0),(0,0,2,0),(0,0,0,1))
            int[] primvars:skel:jointIndices = [0,1, 0,1, 0,1, 0,1, 0,1, 0,1, 0,1, 0,1] (
                elementSize = 2
                interpolation = "vertex" )
            float[] primvars:skel:jointWeights = [1,0, 1,0, 1,0, 1,0, 0,1, 0,1, 0,1, 0.3,0.7] (
                elementSize = 2
                interpolation = "vertex" )
            int[] faceVertexCounts = [4, 4, 4, 4, 4, 4]
            int[] faceVertexIndices = [0,3,2,1, 4,5,6,7, 0,1,5,4, 1,2,6,5, 2,3,7,6, 3,0,4,7]
            point3f[] points = [(-5,-5,0), (5,-5,0), (5,5,0), (-5,5,0),
                                (-5,-5,50), (5,-5,50), (5,5,50), (-5,5,50)]
        }
    }
}
def Xform "Left" (
    instanceable = true
    inherits = </Original>
)
{
    double3 xformOp:translate = (100, 0, 0)
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
"""


def played(file, baked, codes):
    """(t, n̄, 3) where UsdSkel's own baking has the skin; the last of a vertex's points counts."""
    stage = Usd.Stage.Open(str(file))
    source = baked.character.source
    # Baking writes time codes as they are: both layers must count alike.
    stage.GetSessionLayer().timeCodesPerSecond = stage.GetTimeCodesPerSecond()
    stage.SetEditTarget(stage.GetSessionLayer())
    for prim in list(stage.Traverse()):
        if prim.IsA(UsdSkel.Root):
            assert UsdSkel.BakeSkinning(UsdSkel.Root(prim), Gf.Interval(codes[0], codes[-1]))
    frames = np.full(baked.frames.shape, np.nan)
    for k, code in enumerate(codes):
        for mesh in source.meshes:
            prim = stage.GetPrimAtPath(mesh.path)
            points = np.array(UsdGeom.Mesh(prim).GetPointsAttr().Get(code))
            place = UsdGeom.XformCache(code).GetLocalToWorldTransform(prim)
            place = source.from_stage @ np.array(place).T
            used = mesh.welded >= 0
            frames[k, mesh.welded[used]] = points[used] @ place[:3, :3].T + place[:3, 3]
    return frames


def complaints(file):
    """What USD's own validators find, without the file's name; nothing where there are none."""
    try:
        from pxr import UsdValidation
    except ImportError:
        return set()
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    found = UsdValidation.ValidationContext(validators).Validate(Usd.Stage.Open(str(file)))
    return {(e.GetName(), str(e.GetMessage()).replace(str(file), "")) for e in found}
