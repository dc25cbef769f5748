"""Joints of common skeletons with the part of the body that each one moves.

Written from the names that the tools give, not copied from files. One joint a line, children
indented; `*` is a side, and such a line with all below it counts for both; `a > b` is a chain.
Roles come after the colon, several where a part lies between two, - for joints outside the body.
"""

from __future__ import annotations

from typing import NamedTuple

MIXAMO = """
Hips: trunk
 Spine > Spine1 > Spine2: trunk
  Neck: neck
   Head: head
    HeadTop_End: head
    *Eye: head
  *Shoulder: limb trunk
   *Arm: limb
    *ForeArm: forearm
     *Hand: hand
      *HandThumb1 > *HandThumb2 > *HandThumb3 > *HandThumb4: hand
      *HandIndex1 > *HandIndex2 > *HandIndex3 > *HandIndex4: hand
      *HandMiddle1 > *HandMiddle2 > *HandMiddle3 > *HandMiddle4: hand
      *HandRing1 > *HandRing2 > *HandRing3 > *HandRing4: hand
      *HandPinky1 > *HandPinky2 > *HandPinky3 > *HandPinky4: hand
 *UpLeg: limb
  *Leg: shin
   *Foot: foot
    *ToeBase > *Toe_End: foot
"""
VRM = """
hips: trunk
 spine > chest > upperChest: trunk
  neck: neck
   head: head
    *Eye: head
    jaw: head
  *Shoulder: limb trunk
   *UpperArm: limb
    *LowerArm: forearm
     *Hand: hand
      *ThumbMetacarpal > *ThumbProximal > *ThumbDistal: hand
      *IndexProximal > *IndexIntermediate > *IndexDistal: hand
      *MiddleProximal > *MiddleIntermediate > *MiddleDistal: hand
      *RingProximal > *RingIntermediate > *RingDistal: hand
      *LittleProximal > *LittleIntermediate > *LittleDistal: hand
 *UpperLeg: limb
  *LowerLeg: shin
   *Foot > *Toes: foot
"""
VROID = """
Root: -
 J_Bip_C_Hips: trunk
  J_Bip_C_Spine > J_Bip_C_Chest > J_Bip_C_UpperChest: trunk
   J_Sec_*_Bust1 > J_Sec_*_Bust2: soft
   J_Bip_C_Neck: neck
    J_Bip_C_Head: head
     J_Adj_*_FaceEye: head
     J_Sec_Hair1_01 > J_Sec_Hair2_01: -
   J_Bip_*_Shoulder: limb trunk
    J_Bip_*_UpperArm: limb
     J_Sec_*_TopsUpperArmInside_01: limb
     J_Bip_*_LowerArm: forearm
      J_Bip_*_Hand: hand
       J_Bip_*_Index1 > J_Bip_*_Index2 > J_Bip_*_Index3: hand
       J_Bip_*_Little1 > J_Bip_*_Little2 > J_Bip_*_Little3: hand
       J_Bip_*_Middle1 > J_Bip_*_Middle2 > J_Bip_*_Middle3: hand
       J_Bip_*_Ring1 > J_Bip_*_Ring2 > J_Bip_*_Ring3: hand
       J_Bip_*_Thumb1 > J_Bip_*_Thumb2 > J_Bip_*_Thumb3: hand
  J_Bip_*_UpperLeg: limb
   J_Bip_*_LowerLeg: shin
    J_Bip_*_Foot > J_Bip_*_ToeBase: foot
"""
RIGIFY = """
root: -
 DEF-spine: trunk
  DEF-pelvis.*: trunk
  DEF-spine.001 > DEF-spine.002 > DEF-spine.003: trunk
   DEF-spine.004 > DEF-spine.005: neck
    DEF-spine.006: head
     ORG-face: head
      DEF-forehead.* > DEF-temple.*: head
      DEF-brow.T.* > DEF-brow.T.*.001: head
      DEF-lid.T.* > DEF-lid.B.*: head
      DEF-cheek.T.* > DEF-cheek.B.*: head
      DEF-nose > DEF-nose.001: head
      DEF-jaw > DEF-chin: head
      DEF-lip.T.* > DEF-lip.B.*: head
      DEF-teeth.T: head horn
      DEF-tongue > DEF-tongue.001: head
      MCH-eye.*: head
      DEF-ear.* > DEF-ear.*.001: ear
   DEF-breast.*: soft
   DEF-shoulder.*: limb trunk
    DEF-upper_arm.* > DEF-upper_arm.*.001: limb
     DEF-forearm.* > DEF-forearm.*.001: forearm
      DEF-hand.*: hand
       DEF-palm.01.*: hand
        DEF-f_index.01.* > DEF-f_index.02.* > DEF-f_index.03.*: hand
        DEF-thumb.01.* > DEF-thumb.02.* > DEF-thumb.03.*: hand
       DEF-palm.02.*: hand
        DEF-f_middle.01.* > DEF-f_middle.02.* > DEF-f_middle.03.*: hand
       DEF-palm.03.*: hand
        DEF-f_ring.01.* > DEF-f_ring.02.* > DEF-f_ring.03.*: hand
       DEF-palm.04.*: hand
        DEF-f_pinky.01.* > DEF-f_pinky.02.* > DEF-f_pinky.03.*: hand
  DEF-thigh.* > DEF-thigh.*.001: limb
   DEF-shin.* > DEF-shin.*.001: shin
    DEF-foot.* > DEF-toe.*: foot
"""
UNREAL = """
root: -
 pelvis: trunk
  spine_01 > spine_02 > spine_03 > spine_04 > spine_05: trunk
   neck_01 > neck_02: neck
    head: head
   clavicle_*: limb trunk
    clavicle_pec_*: limb trunk soft
    upperarm_*: limb
     upperarm_twist_01_*: limb
     upperarm_correctiveRoot_*: limb
      upperarm_bck_*: limb
     lowerarm_*: forearm
      lowerarm_twist_01_*: forearm
      lowerarm_correctiveRoot_*: forearm
      hand_*: hand
       wrist_inner_*: hand
       index_metacarpal_* > index_01_* > index_02_* > index_03_*: hand
       middle_metacarpal_* > middle_01_* > middle_02_* > middle_03_*: hand
       pinky_metacarpal_* > pinky_01_* > pinky_02_* > pinky_03_*: hand
       ring_metacarpal_* > ring_01_* > ring_02_* > ring_03_*: hand
       thumb_01_* > thumb_02_* > thumb_03_*: hand
       weapon_*: prop
  thigh_*: limb
   thigh_twist_01_*: limb
   calf_*: shin
    calf_twist_01_*: shin
    calf_knee_*: shin
    foot_*: foot
     ankle_bck_*: foot
     ball_*: foot
      bigtoe_01_* > bigtoe_02_*: foot
 ik_foot_root: foot -
  ik_foot_*: foot
 ik_hand_root: hand -
  ik_hand_gun: hand prop
   ik_hand_*: hand
"""
AUTO_RIG = """
c_traj: -
 root.x: trunk
  spine_01.x > spine_02.x > spine_03.x: trunk
   neck.x: neck
    head.x: head
     c_jawbone.x: head
     c_skull_01.x > c_skull_02.x: head
     c_eye.*: head
     c_eyelid_top_01.*: head
     c_eyebrow_01.*: head
     c_lips_smile.*: head
     c_lips_top.x: head
     c_cheek_smile.*: head
     c_nose_01.x: head
     c_teeth_top.x: head horn
     tong_01.x > tong_02.x: head
     c_ear_01.* > c_ear_02.*: ear
   breast.*: soft
   shoulder.*: limb trunk
    arm_stretch.*: limb
     arm_twist.*: limb
     forearm_stretch.*: forearm
      forearm_twist.*: forearm
      hand.*: hand
       c_thumb1.* > c_thumb2.* > c_thumb3.*: hand
       c_index1_base.* > c_index1.* > c_index2.* > c_index3.*: hand
       c_middle1_base.* > c_middle1.* > c_middle2.* > c_middle3.*: hand
       c_ring1_base.* > c_ring1.* > c_ring2.* > c_ring3.*: hand
       c_pinky1_base.* > c_pinky1.* > c_pinky2.* > c_pinky3.*: hand
  c_root_bend.x: trunk
  butt.*: soft
  thigh_stretch.*: limb
   thigh_twist.*: limb
   leg_stretch.*: shin
    leg_twist.*: shin
    foot.*: foot
     toes_01.*: foot
      c_toes_index1.* > c_toes_index2.*: foot
      c_toes_pinky1.*: foot
      c_toes_thumb1.*: foot
  tail_00.x > tail_01.x > tail_02.x: tail
"""
CHARACTER_CREATOR = """
CC_Base_BoneRoot: -
 CC_Base_Hip: trunk
  CC_Base_Pelvis: trunk
   CC_Base_*_Thigh: limb
    CC_Base_*_ThighTwist01 > CC_Base_*_ThighTwist02: limb
    CC_Base_*_Calf: shin
     CC_Base_*_CalfTwist01 > CC_Base_*_CalfTwist02: shin
     CC_Base_*_KneeShareBone: shin
     CC_Base_*_Foot: foot
      CC_Base_*_ToeBase: foot
       CC_Base_*_BigToe1 > CC_Base_*_PinkyToe1: foot
       CC_Base_*_IndexToe1 > CC_Base_*_MidToe1 > CC_Base_*_RingToe1: foot
      CC_Base_*_ToeBaseShareBone: foot
  CC_Base_Waist > CC_Base_Spine01 > CC_Base_Spine02: trunk
   CC_Base_NeckTwist01 > CC_Base_NeckTwist02: neck
    CC_Base_Head: head
     CC_Base_FacialBone: head
      CC_Base_JawRoot > CC_Base_Tongue01 > CC_Base_Tongue02: head
      CC_Base_Teeth02: head horn
      CC_Base_UpperJaw > CC_Base_Teeth01: head horn
      CC_Base_*_Eye: head
   CC_Base_*_Clavicle: limb trunk
    CC_Base_*_Upperarm: limb
     CC_Base_*_UpperarmTwist01 > CC_Base_*_UpperarmTwist02: limb
     CC_Base_*_Forearm: forearm
      CC_Base_*_ForearmTwist01 > CC_Base_*_ForearmTwist02: forearm
      CC_Base_*_ElbowShareBone: forearm
      CC_Base_*_Hand: hand
       CC_Base_*_Thumb1 > CC_Base_*_Thumb2 > CC_Base_*_Thumb3: hand
       CC_Base_*_Index1 > CC_Base_*_Index2 > CC_Base_*_Index3: hand
       CC_Base_*_Mid1 > CC_Base_*_Mid2 > CC_Base_*_Mid3: hand
       CC_Base_*_Ring1 > CC_Base_*_Ring2 > CC_Base_*_Ring3: hand
       CC_Base_*_Pinky1 > CC_Base_*_Pinky2 > CC_Base_*_Pinky3: hand
   CC_Base_*_RibsTwist: trunk
    CC_Base_*_Breast: soft
"""
DAZ_8 = """
hip: trunk
 pelvis: trunk
  *ThighBend: limb
   *ThighTwist: limb
    *Shin: shin
     *Foot: foot
      *Metatarsals: foot
       *Toe: foot
        *BigToe > *BigToe_2: foot
        *SmallToe1 > *SmallToe1_2: foot
      *Heel: foot
 abdomenLower > abdomenUpper: trunk
  chestLower: trunk
   *Pectoral: soft
   chestUpper: trunk
    neckLower > neckUpper: neck
     head: head
      upperTeeth: head horn
      lowerJaw: head
       tongue01 > tongue02: head
      *Eye: head
      *Ear: ear
      upperFaceRig: head
       *BrowInner: head
       *CheekUpper: head
       *NasolabialUpper: head
       *EyelidUpper: head
       *LipUpperOuter: head
       LipUpperMiddle: head
       MidNoseBridge: head
    *Collar: limb trunk
     *ShldrBend: limb
      *ShldrTwist: limb
       *ForearmBend: forearm
        *ForearmTwist: forearm
         *Hand: hand
          *Thumb1 > *Thumb2 > *Thumb3: hand
          *Carpal1: hand
           *Index1 > *Index2 > *Index3: hand
          *Carpal2: hand
           *Mid1 > *Mid2 > *Mid3: hand
          *Carpal3: hand
           *Ring1 > *Ring2 > *Ring3: hand
          *Carpal4: hand
           *Pinky1 > *Pinky2 > *Pinky3: hand
"""
DAZ_9 = """
hip: trunk
 pelvis: trunk
  *_thigh: limb
   *_thightwist1 > *_thightwist2: limb
   *_shin: shin
    *_foot: foot
     *_metatarsal: foot
     *_toes: foot
      *_bigtoe1 > *_bigtoe2: foot
      *_indextoe1 > *_midtoe1 > *_ringtoe1 > *_pinkytoe1: foot
 spine1 > spine2 > spine3 > spine4: trunk
  *_pectoral: soft
  neck1 > neck2: neck
   head: head
    lowerjaw: head
    upperteeth: head horn
    *_eye: head
    *_ear: ear
  *_shoulder: limb trunk
   *_upperarm: limb
    *_upperarmtwist1 > *_upperarmtwist2: limb
    *_forearm: forearm
     *_forearmtwist1 > *_forearmtwist2: forearm
     *_hand: hand
      *_metacarpal1: hand
       *_index1 > *_index2 > *_index3: hand
      *_thumb1 > *_thumb2 > *_thumb3: hand
      *_mid1 > *_mid2 > *_mid3: hand
      *_ring1 > *_ring2 > *_ring3: hand
      *_pinky1 > *_pinky2 > *_pinky3: hand
"""
QUATERNIUS = """
Root: -
 Body: trunk
  Hips: trunk
   Abdomen > Torso: trunk
    Neck: neck
     Head: head
    Shoulder.*: limb trunk
     UpperArm.*: limb
      LowerArm.*: forearm
       Fist.*: hand
       Palm1.*: hand
        Index1.* > Index2.* > Index3.*: hand
        Thumb.* > Thumb2.*: hand
       Palm2.* > Middle1.* > Middle2.*: hand
       Palm3.* > Ring1.* > Ring2.*: hand
   UpperLeg.*: limb
    LowerLeg.*: shin
 Foot.*: foot
 PoleTarget.*: -
"""
QUATERNIUS_ANIMAL = """
AnimalArmature: -
 Body: trunk
  Hips: trunk
   Tail1 > Tail2 > Tail3: tail
   BackUpperLeg.*: limb
    BackLowerLeg.*: shin
  Torso: trunk
   FrontShoulder.*: limb trunk
    FrontUpperLeg.*: limb
     FrontLowerLeg.*: shin
   Neck1 > Neck2 > Neck3: neck
    Head: head
     Ear1.* > Ear2.*: ear
 IKFrontLeg.*: limb shin foot
 IKBackLeg.*: limb shin foot
 FrontFoot.*: foot
 BackFoot.*: foot
"""
BLENDER_HUMAN = """
spine: trunk
 spine.001 > spine.002 > spine.003: trunk
  spine.004 > spine.005: neck
   spine.006: head
    face: head
     nose > nose.001 > nose.002: head
     lip.T.* > lip.B.*: head
     jaw > chin > chin.001: head
     ear.* > ear.*.001: ear
     lid.T.* > brow.T.* > forehead.*: head
     eye.*: head
     cheek.T.*: head
     teeth.T: head horn
     tongue > tongue.001: head
  shoulder.*: limb trunk
   upper_arm.*: limb
    forearm.*: forearm
     hand.*: hand
      palm.01.*: hand
       f_index.01.* > f_index.02.* > f_index.03.*: hand
       thumb.01.* > thumb.02.* > thumb.03.*: hand
      palm.02.* > f_middle.01.* > f_middle.02.* > f_middle.03.*: hand
      palm.03.* > f_ring.01.* > f_ring.02.* > f_ring.03.*: hand
      palm.04.* > f_pinky.01.* > f_pinky.02.* > f_pinky.03.*: hand
  breast.*: soft
 pelvis.*: trunk
 thigh.*: limb
  shin.*: shin
   foot.*: foot
    toe.*: foot
    heel.02.*: foot
"""
BLENDER_BASIC_HUMAN = """
spine: trunk
 spine.001 > spine.002 > spine.003: trunk
  spine.004: neck
   spine.005: head
  shoulder.*: limb trunk
   upper_arm.* : limb
    forearm.* : forearm
     hand.* : hand
 thigh.*: limb
  shin.*: shin
   foot.* > toe.*: foot
"""
BLENDER_WOLF = """
spine.004: trunk
 spine.003 > spine.002 > spine.001 > spine: tail
 pelvis.*: trunk
 thigh.*: limb
  shin.*: shin
   foot.* > toe.*: foot
 spine.005 > spine.006 > spine.007: trunk
  spine.008: trunk
   shoulder.*: limb trunk
    front_thigh.*: limb
     front_shin.*: shin
      front_foot.* > front_toe.*: foot
   spine.009 > spine.010: neck
    spine.011: head
     ear.*: ear
     jaw: head
"""
REAR_AND_FRONT = """
root: -
 pelvis: trunk
  tail_01 > tail_02: tail
  rear_upper_leg_*: limb
   rear_lower_leg_*: shin
    rear_foot_* > rear_toe_*: foot
  rear_spine > spine_01 > spine_02: trunk
   neck_01 > neck_02: neck
    head: head
     ear_* > ear_tip_*: ear
   front_upper_leg_*: limb
    front_lower_leg_*: shin
     front_foot_* > front_toe_*: foot
"""
SMPL = """
pelvis: trunk
 *_hip: limb
  *_knee: shin
   *_ankle > *_foot: foot
 spine1 > spine2 > spine3: trunk
  neck: neck
   head: head
  *_collar: limb trunk
   *_shoulder: limb
    *_elbow: forearm
     *_wrist > *_hand: hand
"""
SMPL_BY_LETTER = """
Pelvis: trunk
 *_Hip: limb
  *_Knee: shin
   *_Ankle > *_Foot: foot
 Spine1 > Spine2 > Spine3: trunk
  Neck: neck
   Head: head
  *_Collar: limb trunk
   *_Shoulder: limb
    *_Elbow: forearm
     *_Wrist > *_Hand: hand
"""
SMPL_X = """
pelvis: trunk
 *_hip: limb
  *_knee: shin
   *_ankle > *_foot: foot
 spine1 > spine2 > spine3: trunk
  neck: neck
   head: head
    jaw: head
    *_eye_smplhf: head
  *_collar: limb trunk
   *_shoulder: limb
    *_elbow: forearm
     *_wrist: hand
      *_index1 > *_index2 > *_index3: hand
      *_middle1 > *_middle2 > *_middle3: hand
      *_pinky1 > *_pinky2 > *_pinky3: hand
      *_ring1 > *_ring2 > *_ring3: hand
      *_thumb1 > *_thumb2 > *_thumb3: hand
"""
#: Family and name of each list, its joints, the words of its sides, and a prefix of all names.
LISTS = {
    "Mixamo": (MIXAMO, ("Left", "Right"), "mixamorig:"),
    "Mixamo without a prefix": (MIXAMO, ("Left", "Right"), ""),
    "Mixamo in glTF": (MIXAMO, ("Left", "Right"), "mixamorig_"),
    "VRM": (VRM, ("left", "right"), ""),
    "VRoid": (VROID, ("L", "R"), ""),
    "Rigify": (RIGIFY, ("L", "R"), ""),
    "Unreal": (UNREAL, ("l", "r"), ""),
    "Auto-Rig": (AUTO_RIG, ("l", "r"), ""),
    "Character Creator": (CHARACTER_CREATOR, ("L", "R"), ""),
    "Daz Genesis 8": (DAZ_8, ("l", "r"), ""),
    "Daz Genesis 9": (DAZ_9, ("l", "r"), ""),
    "Quaternius": (QUATERNIUS, ("L", "R"), ""),
    "Quaternius animals": (QUATERNIUS_ANIMAL, ("L", "R"), ""),
    "Blender's human": (BLENDER_HUMAN, ("L", "R"), ""),
    "Blender's basic human": (BLENDER_BASIC_HUMAN, ("L", "R"), ""),
    "Blender's wolf": (BLENDER_WOLF, ("L", "R"), ""),
    "Animals with rear legs": (REAR_AND_FRONT, ("L", "R"), ""),
    "SMPL": (SMPL, ("left", "right"), ""),
    "SMPL in Unity": (SMPL_BY_LETTER, ("L", "R"), ""),
    "SMPL-X": (SMPL_X, ("left", "right"), ""),
}


class ListedJoint(NamedTuple):
    """Name of a joint, row of its parent or −1, and the roles it may have; None is no role."""

    name: str
    parent: int
    roles: tuple[str | None, ...]


def joint_list(family: str) -> list[ListedJoint]:
    """Return the joints of a family, parents first."""
    text, sides, prefix = LISTS[family]
    joints: list[ListedJoint] = []
    lines = [line for line in text.splitlines() if line.strip()]

    def depth(line: str) -> int:
        return len(line) - len(line.lstrip())

    def add(at: int, parent: int, side: str | None) -> None:
        """Add a line and those below it."""
        line = lines[at]
        if "*" in line and side is None:
            for each in sides:
                add(at, parent, each)
            return
        chain, _, said = line.strip().rpartition(":")
        roles = tuple(None if role == "-" else role for role in said.split())
        for name in chain.split(" > "):
            joints.append(
                ListedJoint(prefix + name.strip().replace("*", side or ""), parent, roles)
            )
            parent = len(joints) - 1
        for below in range(at + 1, len(lines)):
            if depth(lines[below]) <= depth(line):
                break
            if depth(lines[below]) == depth(line) + 1:
                add(below, parent, side)

    for at, line in enumerate(lines):
        if depth(line) == 0:
            add(at, -1, None)
    return joints
