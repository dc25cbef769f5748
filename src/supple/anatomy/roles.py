"""Roles of parts of a body: their flesh shares, and names of joints and materials as evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from supple.rig.motion.joint_names import normalised_name

#: Flesh share φ of each role: flesh deeper than φ times the thickness is bone.
ROLES = {
    "prop": 0.0,
    "horn": 0.0,
    "hand": 0.0,
    "foot": 0.0,
    "end": 0.0,
    "head": 0.15,
    "fin": 0.4,
    "forearm": 0.45,
    "shin": 0.45,
    "ear": 0.5,
    "neck": 0.6,
    "limb": 0.65,
    "tail": 0.75,
    "trunk": 0.85,
    "soft": 1.0,
}
#: Below this share a part is rigid.
HARD = 0.3


@dataclass
class RegionRole:
    """Role of one region, a name of `ROLES`, with reasons of one line each.

    `own_share` is φ if it differs from the role's φ, as for a hand without a body.
    """

    role: str = "limb"
    reasons: list[str] = field(default_factory=list)
    own_share: float | None = None

    def assign(self, role: str, reason: str) -> None:
        """Change the role, with a reason; one that was given before becomes the last."""
        self.role = role
        self.reasons = [each for each in self.reasons if each != reason] + [reason]

    @property
    def share(self) -> float:
        """Flesh share φ of the region: flesh deeper than φ times the thickness is bone."""
        return ROLES[self.role] if self.own_share is None else self.own_share


# Evidence of names.


#: Words of joints; the first role with a match counts: a "backleg" is a leg. From rigs of Mixamo,
#: Rigify, Unreal, VRM, MakeHuman, SMPL, MANO, Daz, Character Creator, Auto-Rig, Biped and
#: Quaternius.
JOINTS = {
    "prop": "weapon|sword|shield|gun|rifle|backpack|helmet|hat|cape|prop|armou?r|monochord"
    "|vibrator",
    "horn": "horn|antler|tusk|claw|hoof|hooves|beak|teeth|tooth|spike|fang|talon"
    "|(finger|thumb|toe)?nail",
    "soft": "breast|boob|bust|pectoral|glute|gluteus|butt|buttock|belly|stomach|tummy|jiggle|jowl"
    "|udder|fat|wattle|dewlap",
    "ear": "ear",
    "fin": "wing|feather|fin|flipper|fluke",
    "tail": "tail",
    "hand": "hand|fist|wrist|palm|finger|thumb|index|pinky|pinkie|metacarpal|carpal|phalanx"
    "|phalange|knuckle",
    "foot": "foot|feet|ankle|(index|ring|pinky|thumb)?toe|paw|ball|metatarsal|heel",
    "forearm": "forearm|lowerarm|lowarm|loarm|elbow|ulna",
    "shin": "shin|calf|lowerleg|lowleg|loleg|knee|tibia",
    "limb": "arm|leg|thigh|femur|humerus|shoulder|shldr",
    "head": "head|skull|cranium|face|facial|forehead|jaw|mouth|muzzle|snout|nose|nostril|tongue"
    "|tong|temple|nasolabial|eye|eyeball|eyelid|eyebrow|eyelash|lid|brow|lip|chin|cheek|oris|orbicularis|oculi"
    "|temporalis|risorius|levator",
    "neck": "neck",
    "trunk": "hip|pelvis|spine|torso|abdomen|chest|body|waist|rib|ribcage|clavicle|collar"
    "|collarbone|thorax",
}
#: Names of fingers with other meanings.
FINGERS = re.compile("f?(middle|mid|ring|little)(finger|proximal|intermediate|distal|tip|end)?")
#: Words that name a finger or the front of a foot only below a hand or foot: "Ring", "Ball".
UNSURE = re.compile(
    "(index|middle|mid|ring|little|ball)(proximal|intermediate|distal|tip|end|root)?"
)
#: Roles above such a joint that confirm its own.
CONFIRMING = {"hand": {"hand", "forearm"}, "foot": {"foot", "shin"}}
#: The pelvis of Auto-Rig.
PELVIS = re.compile(r"(c_)?root(_master|_bend)?\.x", re.I)
#: Prefixes and suffixes of body words. No word consists of others ("lf" is l and f), because a name
#: with several readings takes exponential time; and "rear" is no right ear.
BEFORE = (
    "left|right|rt|l|r(?!ear)|upper|up|lower|low|lo|fore|front|back|hind|rear|top|bottom|middle|mid"
    "|inner|outer|big|main|ik|fk|f"
)
AFTER = (
    "base|end|tip|nub|top|root|middle|mid|bend|twist|roll|bone|joint|ik|fk|target|anchor|upper|lower"
    "|inner|outer|proximal|intermediate|distal|left|right|l|r|s"
)
WORDS = {
    role: re.compile(f"(?:{BEFORE})*(?:{words})(?:{AFTER})*") for role, words in JOINTS.items()
}
#: Objects named after a part of the body.
WORN = "plate|pad|guard|strap|armou?r|light|lamp|lace|band|belt|buckle|bracelet|holster|stool|bag"
WORN_WORDS = re.compile(f"(?:(?:{BEFORE})*(?:{'|'.join(JOINTS.values())}))?(?:{WORN})s?")
#: Words that contain body words but are none.
NO_PARTS = {"legend", "legends", "earl", "earls", "handle", "handles"}
#: Words of MMD's Japanese, wherever they are in a name, the longer first.
JAPANESE = {
    "手首": "wrist", "足首": "ankle", "つま先": "toe", "上半身": "spine", "下半身": "pelvis",
    "ひじ": "elbow", "肘": "elbow", "ひざ": "knee", "膝": "knee", "親指": "thumb",
    "人指": "index", "人差指": "index", "中指": "finger", "薬指": "finger", "小指": "pinky",
    "手捩": "forearm", "腕捩": "upperarm", "足先": "toe",
    "目": "eye", "頭": "head", "首": "neck", "顎": "jaw", "舌": "tongue", "肩": "shoulder",
    "腕": "arm", "手": "hand", "腿": "thigh", "足": "leg", "胸": "chest", "腰": "waist",
    "尻": "butt", "腹": "belly", "尾": "tail", "耳": "ear", "角": "horn", "翼": "wing",
    "左": "left", "右": "right",
}  # fmt: skip
#: German words, alone in a name or between other words.
GERMAN = {
    "oberschenkel": "thigh", "unterschenkel": "shin", "oberarm": "upperarm",
    "unterarm": "forearm", "wirbelsäule": "spine", "schulter": "shoulder", "becken": "pelvis",
    "bauch": "belly", "schwanz": "tail", "flügel": "wing", "kiefer": "jaw", "kopf": "head",
    "hals": "neck", "bein": "leg", "knie": "knee", "fuß": "foot", "fuss": "foot", "zehen": "toe",
    "zeh": "toe", "ohr": "ear", "brust": "chest", "daumen": "thumb", "links": "left",
    "rechts": "right",
}  # fmt: skip
#: Patterns of hard materials and meshes, anywhere in a name; and some of soft ones.
LABELS = (
    ("prop", r"helmet|hat|armou?r|breastplate|metal|steel|weapon|sword|shield|gun|shoes?|boots?"
     r"|glasses|earrings?|bracelets?|buckles?|buttons?|monochord|instrument"),
    ("horn", r"hoof|hooves|horns?|antlers?|tusks?|claws?|(finger|toe)?nails?|teeth|tooth|beak|skull"
     r"|fangs?|spikes?|eyes?|eyeballs?|cornea|sclera|pupils?|iris"),
    ("head", r"muzzle|nose|snout|eyebrows?|face|lips?"),
    ("soft", r"udder|wattle|jelly|fat"),
)  # fmt: skip


@lru_cache(maxsize=4096)
def joint_name_role(name: str) -> str | None:
    """Return the role that a joint's name indicates, None if it indicates none.

    >>> joint_name_role("mixamorig:LeftForeArm"), joint_name_role("BackLeg.R")
    ('forearm', 'limb')
    >>> joint_name_role("left_hip"), joint_name_role("Trunk01"), joint_name_role("joint_7")
    ('limb', None, None)
    >>> joint_name_role("左手首"), joint_name_role("Oberschenkel_L"), joint_name_role("handle")
    ('hand', 'limb', None)
    """
    name = _translated(name[:200])
    side, plain = normalised_name(name)
    plain = re.sub(r"\d+", "", plain)
    if side and plain in ("hip", "upper"):
        return "limb"  # in SMPL, the thigh's joint is a hip
    if FINGERS.fullmatch(plain):
        return "hand"
    last = re.split(r"[:|/]", name)[-1]
    if plain in ("back", "shoulders") or PELVIS.fullmatch(last):
        return "trunk"
    tokens = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", last)]
    words = {*tokens, plain} - NO_PARTS
    roles = [role for role, pattern in WORDS.items() if any(map(pattern.fullmatch, words))]
    worn = [word for word in words if WORN_WORDS.fullmatch(word)]
    if worn and (roles or not re.fullmatch(WORN, worn[0])):
        return "prop"
    if roles[:1] == ["hand"] and "foot" in roles and "toe" in plain:
        return "foot"  # toes may have names of fingers
    parts = [word for word in tokens if any(each.fullmatch(word) for each in WORDS.values())]
    if parts and WORDS["fin"].fullmatch(parts[-1]):
        return "fin"  # as of a belly
    return roles[0] if roles else None


#: Upper part of a leg, below which a "leg" is a shin; and joints that carry arms.
UPPER_LEGS = re.compile("upleg|upperleg|thigh")
SHINS = re.compile("leg(stretch|twist|roll|bend|fk|ik)*")
ARMS = re.compile("shoulder|(upper|up)?arm|clavicle|collar|front|fore")
#: Joints that end a numbered spine with names of their own.
HEADS = re.compile("(head|skull|cranium)(top|end|tip|nub|base|root|bone)*x?")


def joint_roles(names: Sequence[str], parents: Sequence[int]) -> list[str | None]:
    """Return the role that each joint's name indicates among those of its skeleton.

    `parents` are rows of the joints above, −1 for none. A "leg" is a shin if its side has a thigh
    and no other shin. A word such as "ring" without a side is a finger only below a hand. If no
    joint is named head or neck, numbered spines above the arms are a neck that ends in a head, and
    those that are numbered against the hierarchy are a tail, as in Blender's meta-rigs.

    >>> joint_roles(["Hips", "LeftUpLeg", "LeftLeg"], [-1, 0, 1])
    ['trunk', 'limb', 'shin']
    >>> chain = ["spine.003", "spine.004", "spine.005", "spine.006", "shoulder.L"]
    >>> joint_roles(chain, [-1, 0, 1, 2, 0])
    ['trunk', 'neck', 'neck', 'head', 'limb']
    """
    roles = [joint_name_role(name) for name in names]
    plain = [normalised_name(_translated(name[:200])) for name in names]
    plain = [(side, re.sub(r"\d+", "", word)) for side, word in plain]
    thighs = {side for side, word in plain if UPPER_LEGS.match(word)}
    thighs -= {side for (side, _), role in zip(plain, roles, strict=True) if role == "shin"}
    words = {word for _, word in plain}
    for row, (side, word) in enumerate(plain):
        if side in thighs and SHINS.fullmatch(word):
            roles[row] = "shin"
        if word == "rear" and "lear" in words:
            roles[row] = "ear"
    unsure = {row for row, (side, word) in enumerate(plain) if not side and UNSURE.fullmatch(word)}
    for row in unsure:
        above = [roles[each] for each in _above(row, parents) if each not in unsure]
        if not CONFIRMING.get(roles[row] or "", set()).intersection(above):
            roles[row] = None
    if "neck" not in roles and not any(map(HEADS.fullmatch, words)):
        _name_spines(roles, names, plain, parents)
    return roles


def _above(row: int, parents: Sequence[int]) -> Iterator[int]:
    """Yield the joints above a joint, the next one first."""
    for _ in parents:
        row = parents[row]
        if row < 0:
            return
        yield row


def _name_spines(
    roles: list[str | None],
    names: Sequence[str],
    plain: Sequence[tuple[str, str]],
    parents: Sequence[int],
) -> None:
    """Name the neck, head and tail of a numbered spine, by the position of the arms."""
    spines: dict[int, int] = {}  # numbers by row
    for row, name in enumerate(names):
        side, word = normalised_name(name[:200])
        if not side and (numbered := re.fullmatch(r"spine(\d*)", word)):
            spines[row] = int(numbered[1] or 0)
    carriers = {
        parents[row]
        for row, (_, word) in enumerate(plain)
        if parents[row] in spines and ARMS.match(word)
    }
    if not carriers:
        return
    legs = [row for row, (_, word) in enumerate(plain) if UPPER_LEGS.match(word)]
    kept = {above for row in (*carriers, *legs) for above in _above(row, parents)} | carriers
    ends = spines.keys() - {parents[row] for row in spines}
    for row in spines.keys() - kept:
        above = parents[row]
        if carriers.intersection(_above(row, parents)):
            roles[row] = "head" if row in ends else "neck"
        elif above in spines and spines[row] < spines[above]:
            roles[row] = "tail"


def _translated(name: str) -> str:
    for word, english in JAPANESE.items():
        name = name.replace(word, f"_{english}_")
    return re.sub(
        r"[A-ZÄÖÜ]?[a-zäöüß]+", lambda match: GERMAN.get(match[0].lower(), match[0]), name
    )


def label_role(label: str) -> str | None:
    """Return the role that the name of a material or mesh indicates, None if it indicates none.

    >>> label_role("material:Hooves"), label_role("material:Eye_Black"), label_role("mesh:Cow")
    ('horn', 'horn', None)
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[_\d.]+", " ", label[-500:].split(":", 1)[-1]).lower()
    for role, pattern in LABELS:
        if re.search(rf"\b({pattern})\b", words):
            return role
    return None
