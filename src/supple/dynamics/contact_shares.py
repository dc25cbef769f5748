"""Which of many contacts of a ball push, and how much: the least force that is enough.

Of forces f_i n_i with 0 ≤ f_i ≤ b_i, that sum s of which ½|s|² − Σ f_i b_i is least: along each
direction it pushes as much as wanted, n_i·s = b_i, unless others do so already (f_i = 0) or its
own b_i is not enough (f_i = b_i). Found by moving from one set of contacts that share to the next:
three at most do so at a time, as space has three directions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled_fused
from supple.dynamics.sphere_tree_kernels import DIRECTION

__all__ = ["PUSHED", "SHARE_ROOM", "WANTED", "share_out"]

Floats = NDArray[np.float64]

#: What a contact wants to push, and what it does.
WANTED, PUSHED = 0, 1
#: Rows and columns of scratch: a small system, its solution, and which contacts share.
SHARE_ROOM = (5, 4)
_SOLUTION, _SHARING = 3, 4
_MOST_MOVES = 200
#: Parts of the largest wish that are as good as nothing.
_SETTLED = 1e-10
#: A direction of which others leave less (squared) is theirs.
_DEPENDENT = 1e-14


@compiled_fused
def share_out(places: Floats, pushes: Floats, room: Floats, total: Floats) -> None:
    """Fill column `PUSHED` of (c, 2) pushes from column `WANTED`, and the total (3,).

    `places` has a contact's direction n, a unit vector or zero, where `sphere_tree_kernels` puts
    it; `room` is scratch of shape `SHARE_ROOM`.
    """
    largest, sharing = 0.0, 0
    total[:] = 0.0
    for i in range(len(pushes)):
        pushes[i, PUSHED] = 0.0
        largest = max(largest, pushes[i, WANTED])
    for _ in range(_MOST_MOVES):
        which, worst, sign = -1, _SETTLED * largest, 1.0
        for i in range(len(pushes)):
            wanted, pushed = pushes[i, WANTED], pushes[i, PUSHED]
            lack = wanted - _dot(places[i, DIRECTION], total)
            if lack > worst and pushed < wanted:
                which, worst, sign = i, lack, 1.0
            elif -lack > worst and pushed > 0.0:
                which, worst, sign = i, -lack, -1.0
        if which < 0:
            break
        sharing = _let_in(places, pushes, which, sign, sharing, room, total)


@compiled_fused
def _let_in(places, pushes, which, sign, sharing, room, total):  # type: ignore[no-untyped-def]
    """Push more with one contact (or less), those that share making way; how many then share."""
    own, members = places[which, DIRECTION], room[_SHARING]
    while True:
        _responses(places, own, sign, sharing, room)
        d = room[_SOLUTION]
        x, y, z = sign * own[0], sign * own[1], sign * own[2]
        for k in range(sharing):
            n = places[int(members[k]), DIRECTION]
            x, y, z = x + d[k] * n[0], y + d[k] * n[1], z + d[k] * n[2]
        rate = x * x + y * y + z * z
        lack = sign * (pushes[which, WANTED] - _dot(own, total))
        pushed, most = pushes[which, PUSHED], pushes[which, WANTED]
        step, stopped = most - pushed if sign > 0.0 else pushed, -2
        if rate > _DEPENDENT and lack < step * rate:
            step, stopped = lack / rate, -1
        for k in range(sharing):
            i = int(members[k])
            left = pushes[i, PUSHED] if d[k] < 0.0 else pushes[i, WANTED] - pushes[i, PUSHED]
            if left < step * abs(d[k]):
                step, stopped = left / abs(d[k]), k
        pushes[which, PUSHED] = min(max(pushed + sign * step, 0.0), most)
        for k in range(sharing):
            pushes[int(members[k]), PUSHED] += step * d[k]
        total[0], total[1], total[2] = total[0] + step * x, total[1] + step * y, total[2] + step * z
        if stopped == -1:
            members[sharing] = which
            return sharing + 1
        if stopped == -2:
            pushes[which, PUSHED] = most if sign > 0.0 else 0.0
            return sharing
        i = int(members[stopped])  # pushes nothing, or all that it may: no longer shares
        pushes[i, PUSHED] = 0.0 if d[stopped] < 0.0 else pushes[i, WANTED]
        sharing -= 1
        for k in range(stopped, sharing):
            members[k] = members[k + 1]


@compiled_fused
def _responses(places, own, sign, sharing, room):  # type: ignore[no-untyped-def]
    """How those that share change so that none of them pushes more than wanted."""
    members, d = room[_SHARING], room[_SOLUTION]
    for k in range(sharing):
        n = places[int(members[k]), DIRECTION]
        for l in range(sharing):
            room[k, l] = _dot(n, places[int(members[l]), DIRECTION])
        d[k] = -sign * _dot(n, own)
    for k in range(sharing):
        for l in range(k + 1, sharing):
            factor = room[l, k] / room[k, k]
            for m in range(k, sharing):
                room[l, m] -= factor * room[k, m]
            d[l] -= factor * d[k]
    for k in range(sharing - 1, -1, -1):
        for l in range(k + 1, sharing):
            d[k] -= room[k, l] * d[l]
        d[k] /= room[k, k]


@compiled_fused
def _dot(a, b):  # type: ignore[no-untyped-def]
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
