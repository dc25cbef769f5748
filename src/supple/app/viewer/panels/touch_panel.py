"""Panel of contact: tracking of the motion, gravity, objects, and contact forces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import viser

from supple.app.pictures.drawing import label
from supple.app.viewer.panels.rows import Row, add_rows, attribute
from supple.app.viewer.scene.contact_nodes import ForceArrows, ObjectNodes, UnposedNode
from supple.app.viewer.scene.scene_view import SceneView
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.obstacles import OBJECT_KINDS
from supple.app.viewer.session.session import Session, clamped

#: Limits of the slider of the tracking frequency, and its value when tracking starts, in Hz.
TRACKING, USUAL_TRACKING = (0.5, 30.0, 0.5), 8.0
ROOTS = ("driven", "tracked", "free")
#: Directions of gravity on the page, y up.
DIRECTIONS = {
    "down": (0.0, -1.0, 0.0),
    "none": (0.0, 0.0, 0.0),
    "up": (0.0, 1.0, 0.0),
    "left": (-1.0, 0.0, 0.0),
    "right": (1.0, 0.0, 0.0),
    "forward": (0.0, 0.0, 1.0),
    "back": (0.0, 0.0, -1.0),
}
#: Gravity in m/s² for a simulator that had none.
STANDARD = 9.81
#: Most parts of the body in the line of contact forces.
MOST_PARTS = 4


class TouchPanel:
    """Tracking, root and gravity; objects and bones to drag; arrows and unposed flesh."""

    def __init__(
        self, server: viser.ViserServer, session: Session[CharacterActor], scene: SceneView
    ) -> None:
        self._session, self._actor = session, session.actor
        simulator = self._actor.simulator
        self._follow = simulator.tracking > 0
        tracking = simulator.tracking if self._follow else USUAL_TRACKING
        self._least = simulator.strength  # until the slider selects a frequency
        self._tracking = clamped(tracking, *TRACKING[:2])
        self._strength = float(np.linalg.norm(simulator.gravity))
        self._nodes: list[Any] = []
        self._arrows = ForceArrows(server, session)
        self._unposed = UnposedNode(server, session, scene)
        if "objects" in session.actor.parts:
            self._nodes.append(ObjectNodes(server, session))
        self._nodes += [self._arrows, self._unposed]
        add_rows(server.gui, session, self._rows())
        self.forces = ForcePanel(server, session)

    def _rows(self) -> Iterator[Row]:
        actor = self._actor

        def put_follow(follow: bool) -> None:
            self._follow = follow
            self._track()

        def put_tracking(frequency: float) -> None:
            self._tracking, self._least = frequency, 0.0
            self._track()

        hint = "Off: the body is limp"
        yield Row("Follow the motion", lambda: self._follow, put_follow, hint)
        hint = "Frequency of the springs that pull joints to the motion; low values yield more"
        yield Row("Tracking (Hz)", lambda: self._tracking, put_tracking, hint, TRACKING)
        hint = "driven: follows the motion exactly; tracked: pulled by springs; free: it can fall"
        get, put = attribute(lambda: actor.simulator, "root_mode")
        yield Row("Root", get, put, hint, options=ROOTS)
        hint = "Part that is pulled when the skin is dragged"
        yield Row("Drag", *attribute(lambda: actor, "grabs"), hint, options=("flesh", "bone"))
        yield Row(
            "Gravity",
            lambda: "down" if self._strength > 0 else "none",
            self._put_gravity,
            "Gravity of bones, flesh and objects",
            options=tuple(DIRECTIONS),
        )
        if "objects" in actor.parts:
            yield from object_rows(self._session)
        yield Row("Force arrows", *attribute(lambda: self._arrows, "visible"))
        hint = "Deformation of the flesh in the rest pose, drawn beside the body"
        yield Row("Unposed flesh", *attribute(lambda: self._unposed, "visible"), hint)

    def _track(self) -> None:
        simulator = self._actor.simulator
        simulator.tracking = self._tracking if self._follow else 0.0
        simulator.strength = self._least if self._follow else 0.0

    def _put_gravity(self, direction: str) -> None:
        vector = np.array(DIRECTIONS[direction])
        self._actor.simulator.gravity = (self._strength or STANDARD) * vector

    def update(self) -> None:
        """Update objects, arrows and unposed flesh."""
        for node in self._nodes:
            node.update()


def object_rows(session: Session[CharacterActor]) -> Iterator[Row]:
    """Yield buttons that add and remove objects."""
    objects = session.actor.objects
    for kind in OBJECT_KINDS:
        yield Row(
            f"Add a {kind}",
            None,
            lambda kind=kind: objects.add(kind, session.skin),
            "Drag it against the body and release it",
        )
    yield Row("Remove objects", None, objects.clear)


class ObjectPanel:
    """Objects to drag, and contact forces, for engines without bones on springs."""

    def __init__(self, server: viser.ViserServer, session: Session[CharacterActor]) -> None:
        self._objects = ObjectNodes(server, session)
        add_rows(server.gui, session, object_rows(session))
        self.forces = ForcePanel(server, session)

    def update(self) -> None:
        """Update the objects."""
        self._objects.update()


class ForcePanel:
    """Line of contact forces: contacts, total force, largest pressure, strongest parts."""

    def __init__(self, server: viser.ViserServer, session: Session[CharacterActor]) -> None:
        self._actor = session.actor
        self._line = server.gui.add_markdown("…")

    def update(self) -> None:
        """Show the forces of the last step."""
        simulator = self._actor.simulator
        contacts = simulator.contacts()
        if len(contacts.points) == 0:
            self._line.content = "no contact"
            return
        forces = np.linalg.norm(contacts.forces, axis=1)
        names, owners = simulator.colliders, contacts.colliders
        if "touch" in self._actor.parts:
            names, owners = simulator.model.bones, simulator.owners[contacts.points]
        sums = np.bincount(owners, forces, len(names))
        strongest = np.argsort(-sums)[:MOST_PARTS]
        parts = [f"{label(names[k], 24)} {sums[k]:.3g} N" for k in strongest if sums[k] > 0]
        self._line.content = (
            f"{len(contacts.points)} contacts, {forces.sum():.3g} N,"
            f" up to {contacts.pressures.max() / 1e3:.3g} kPa  \n{', '.join(parts)}"
        )
