"""Names of joints, materials and meshes as evidence of what a part of a body is."""

from __future__ import annotations

import re

from supple.rig.motion.joint_names import normalised_name

__all__ = ["joint_name_role", "label_role"]

#: Patterns of plain joint names, the first that is found counts: "backleg" is a leg, "earring" no
#: ear. Words of Mixamo, Rigify, Unreal, VRM, MakeHuman, SMPL and Quaternius.
JOINTS = (
    ("prop", r"weapon|sword|shield|gun|rifle|backpack|helmet|hat$|cape|monochord|vibrator|prop$"),
    ("horn", r"horn|antler|tusk|claw|hoof|beak|teeth|tooth|spike|fang"),
    ("soft", r"breast|boob|bust|glute|butt|belly|stomach|tummy|jiggle|jowl|udder|fat$|wattle"),
    ("ear", r"^(left|right)?ears?(tip|base|end|top|mid)?$"),
    ("fin", r"wing|feather|fin$|^fin(?!ger)|flipper|fluke"),
    ("tail", r"tail"),
    ("hand", r"hand|wrist|palm|finger|thumb|index|pinky|metacarpal|phalanx|^(middle|ring)$"),
    ("foot", r"foot|feet|ankle|toe|paw|^ball$"),
    ("forearm", r"forearm|lowerarm|lowarm|loarm|elbow|ulna"),
    ("shin", r"shin|calf|lowerleg|lowleg|loleg|knee|tibia"),
    ("limb", r"arm|leg|thigh|femur|humerus|shoulder$"),
    ("head", r"head|skull|face|jaw|mouth|muzzle|snout|nose|tongue|eye|brow|lip|chin|cheek"),
    ("neck", r"neck"),
    (
        "trunk",
        r"hips?$|pelvis|spine|torso|abdomen|chest|^body|^back$|waist|rib|shoulders|clavicle"
        r"|collar",
    ),
)
#: Patterns of materials and meshes that are hard, wherever they are; and some that are soft.
LABELS = (
    ("horn", r"hoof|hoove|horn|antler|tusk|claw|nails?\b|teeth|tooth|beak|skull|fang|spike"
     r"|\beyes?\b|eyeball|cornea|sclera|pupil"),
    ("head", r"muzzle|\bnose\b|snout|eyebrow|\bface\b|\blips?\b"),
    ("prop", r"helmet|\bhat\b|armou?r|metal|steel|weapon|sword|shield|gun|shoe|boot|glasses"
     r"|earring|buckle|monochord|instrument"),
    ("soft", r"udder|wattle|jelly|\bfat\b"),
)  # fmt: skip


def joint_name_role(name: str) -> str | None:
    """Return the role that a joint's name speaks of, if any.

    >>> joint_name_role("mixamorig:LeftForeArm"), joint_name_role("BackLeg.R")
    ('forearm', 'limb')
    >>> joint_name_role("left_hip"), joint_name_role("Trunk01"), joint_name_role("joint_7")
    ('limb', None, None)
    """
    side, plain = normalised_name(name)
    plain = re.sub(r"\d+", "", plain)
    if side and plain in ("hip", "upper"):
        return "limb"  # SMPL calls the thigh's joint a hip
    for role, pattern in JOINTS:
        if re.search(pattern, plain):
            return role
    return None


def label_role(label: str) -> str | None:
    """Return the role that the name of a material or mesh speaks of, if any.

    >>> label_role("material:Hooves"), label_role("material:Eye_Black"), label_role("mesh:Cow")
    ('horn', 'horn', None)
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[_\d.]+", " ", label.split(":", 1)[-1]).lower()
    for role, pattern in LABELS:
        if re.search(pattern, words):
            return role
    return None
