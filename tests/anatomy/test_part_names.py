"""Names of joints speak of parts of a body, in the words of many rigs; other words do not."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from supple.anatomy.roles import AFTER, BEFORE, joint_name_role, label_role

#: From rigs of VRM, Mixamo, Rigify, Unreal, MakeHuman, SMPL-X, MANO, Daz, Character Creator, Biped,
#: Quaternius and MMD.
PARTS = {
    "hand": "leftHand leftThumbProximal leftLittleDistal leftRingProximal mixamorig:LeftHandIndex1"
    " DEF-f_index.01.L DEF-palm.01.L hand_l pinky_03_r wrist.L finger1-1.L metacarpal1.L"
    " left_wrist left_index1 lindex0 middle1 lHand lCarpal1 lMid1 CC_Base_L_Index1 CC_Base_R_Mid2"
    " Bip01_L_Finger0 ValveBiped.Bip01_R_Hand J_Bip_L_Little1 index-finger-phalanx-distal"
    " 左手首 右親指１",
    "foot": "leftToes mixamorig:LeftToeBase DEF-toe.L foot_l ball_l toe1-1.L left_ankle"
    " lMetatarsals CC_Base_L_ToeBase Bip01_L_Toe0 FrontFoot.L back_ankle_r 左足首 右つま先"
    " 左足先EX RearFoot.L Fuß_L",
    "head": "head leftEye jaw mixamorig:HeadTop_End DEF-lid.T.L DEF-brow.B.R oris04.L levator02.L"
    " tongue00 upperFaceRig rNostril CC_Base_FacialBone CC_Base_JawRoot Bip01_HeadNub"
    " J_Adj_L_FaceEye left_eye_smplhf mouth_upper_tip 頭 両目 Kopf",
    "neck": "neck neck_01 neckLower CC_Base_NeckTwist01 Skeleton_neck_joint_2 首 Hals",
    "forearm": "leftLowerArm mixamorig:LeftForeArm DEF-forearm.L.001 lowerarm_twist_01_l"
    " lowerarm02.L left_elbow lForearmBend CC_Base_L_Forearm 左ひじ 左手捩 Unterarm.L",
    "shin": "leftLowerLeg DEF-shin.L calf_l lowerleg01.L left_knee lShin CC_Base_L_CalfTwist01"
    " Bip01_R_Calf FrontLowLeg.L 右ひざ",
    "limb": "leftUpperLeg mixamorig:LeftUpLeg mixamorig:LeftArm DEF-upper_arm.L DEF-thigh.L thigh_l"
    " upperarm01.L left_hip lThighBend lShldrTwist CC_Base_L_Upperarm BackLeg.R IKFrontLeg.L"
    " back_leg_hip_l rear_leg_L Rear_Leg_Upper_R RearThigh 左腕 左腕捩 右足 Oberschenkel_L",
    "trunk": "hips upperChest mixamorig:Spine2 DEF-spine.003 DEF-pelvis.L spine_01 clavicle_l"
    " spine05 left_collar hip abdomenLower lCollar CC_Base_Hip CC_Base_L_RibsTwist Bip01_Pelvis"
    " Back Shoulders rear_spine 上半身 Wirbelsäule",
    "soft": "DEF-breast.L CC_Base_L_Breast J_Sec_L_Bust1 lPectoral belly udder",
    "tail": "Tail1 tail_tip Bip01_Tail 尾",
    "ear": "Ear1.L lEar left_ear_tip R_Ear rEar upperear 左耳",
    "fin": "wing_feather_5_0_l TopFlipper.L finL belly_fin pectoral_fin_L pelvicFinTip",
    "horn": "Stag_Horns horn_tip_L upperTeeth fingernail claw_01",
    "prop": "weapon_r breastplate BreastPlate shoulderpad chinstrap headlight footstool kneepad",
}
OTHERS = (
    "Bone.001 joint_7 bone5 root Armature armature heart gear earth legend handle buttons bracelet",
    "surface detail swing clip ribbon machine cushion brown charm alarm elegant pawn thorn",
    "spaceships template chandelier センター 髪 Дерево",
)


@pytest.mark.parametrize(
    ("name", "role"), [(name, role) for role, names in PARTS.items() for name in names.split()]
)
def test_names_of_joints_of_many_rigs_indicate_what_they_move(name: str, role: str):
    assert joint_name_role(name) == role


@pytest.mark.parametrize("name", [*" ".join(OTHERS).split(), "", "\x00", "\ud800", "arm" * 100_000])
def test_other_words_indicate_no_part(name: str):
    assert joint_name_role(name) is None


def test_names_with_spaces_are_read_too():
    assert joint_name_role("Bip01 R Calf") == "shin"


@pytest.mark.parametrize(
    ("label", "role"),
    [
        ("material:Hooves", "horn"),
        ("material:Eye_Black", "horn"),
        ("mesh:/Scene/Monochord_Base", "prop"),
        ("material:Muzzle", "head"),
        ("mesh:Snails", None),
        ("material:reboot", None),
        ("mesh:Cow", None),
    ],
)
def test_names_of_materials_and_meshes_indicate_what_they_cover(label: str, role: str | None):
    assert label_role(label) == role


def test_long_names_are_read_in_a_moment():
    words = ["lf" * 90 + "zz", "rear" * 45 + "q", "fore" * 45 + "q", "l" * 190 + "plateq"]
    script = "import sys; from supple.anatomy.roles import joint_name_role as role\n"
    script += "assert all(role(name) is None for name in sys.argv[1:])"
    subprocess.run([sys.executable, "-c", script, *words], check=True, timeout=300)


@pytest.mark.parametrize("affixes", [BEFORE, AFTER])
def test_prefixes_and_suffixes_have_one_reading(affixes: str):
    words = set(re.sub(r"\(.*?\)", "", affixes).split("|"))
    # By Sardinas and Patterson: no remainder of two readings may be a word itself.
    left = {long[len(short) :] for long in words for short in words if long.startswith(short)}
    left, seen = left - {""}, set[str]()
    while left - seen:
        seen |= left
        pairs = [(a, b) for a in left for b in words] + [(b, a) for a in left for b in words]
        left = {long[len(short) :] for long, short in pairs if long.startswith(short)}
    assert not words & seen
    assert "" not in seen
