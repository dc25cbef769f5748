"""A sketch in the viewer: pulls on the linear model become a basis (barbic2005 §5.2)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from supple import StvkModel, SuppleError
from supple.app.bodies.make_body import prepared_body_and_mesh
from supple.app.viewer.session.body_actor import BodyActor
from supple.app.viewer.session.body_sketch import BodySketch
from supple.app.viewer.session.session import Session
from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.stvk.sketch import static_shapes
from supple.progress import unreported
from supple.scenes.bodies.beam import beam

MESH, SOFT = beam(cells=(8, 2, 2)), Material("stvk", young=1e5)
FIXED = np.flatnonzero(MESH.vertices[:, 0] == 0)


def sketched() -> Session[BodyActor]:
    """Return a session in which the beam's tip was dragged along an arc."""
    model = StvkModel.build(MESH, SOFT, modes=4, fixed=FIXED, basis="modes")
    session = Session(BodyActor(model, BodySketch(model, MESH, "beam")))
    tip = MESH.vertices[MESH.vertices[:, 0].argmax()]
    session.submit(session.actor.start_sketch, True)
    session.grip("hand", tip)
    for angle in np.linspace(0, 2, 30):
        session.pull("hand", tip + 0.25 * np.array([0.0, np.sin(angle), 0.4 * angle]))
        session.advance()
    session.release("hand")
    session.advance()
    return session


def test_pulls_on_the_linear_model_are_static_and_recorded() -> None:
    session = sketched()
    actor = session.actor
    assert actor.sketch is not None
    assert len(actor.sketch.loads) == 30
    assert "sketch" in actor.parts
    q = actor.sketch.shape(actor.model, [actor.sketch.loads[-1][0]])
    grip, force = actor.sketch.loads[-1]
    load = np.einsum(
        "v,i,vir->r", grip.patch.shares, force, actor.model.surface_basis[grip.patch.vertices]
    )
    linear = np.linalg.solve(actor.model.stiffness(np.zeros(4)), load)
    np.testing.assert_allclose(q, linear, atol=1e-9 * np.abs(q).max())
    assert np.abs(actor.simulator.q).max() < 1e-12  # released: at rest


def test_a_sketch_gives_a_body_that_follows_its_loads() -> None:
    """Under a recorded force the new body is near the full static shape; linear modes are not."""
    session = sketched()
    actor = session.actor
    assert actor.sketch is not None
    before = actor.built
    refined = actor.sketch.refined(unreported)
    assert refined.modes == before.modes
    body = ElasticBody(MESH, SOFT)
    load = actor.sketch._full_forces([actor.sketch.loads[20]])[0]
    truth = static_shapes(body, [load], fixed=FIXED)[0]
    masses = body.vertex_masses()

    def error(model: StvkModel) -> float:
        projected = np.einsum("nkr,nk->r", model.basis, masses[:, None] * truth)
        q = model.equilibrium(np.einsum("nkr,nk->r", model.basis, load), projected)
        assert q is not None
        wrong: Floats = model.basis @ q - truth
        return float(np.sqrt(((wrong**2).sum(axis=1) @ masses) / ((truth**2).sum(axis=1) @ masses)))

    assert error(refined) < 0.05
    assert error(refined) < 0.3 * error(before)
    session.submit(actor.replace_body, refined)
    session.advance(3)
    assert actor.model is refined
    assert not actor.sketching
    assert np.isfinite(session.skin).all()


def test_a_body_without_a_mesh_or_loads_has_nothing_to_refine(tmp_path: Path) -> None:
    model = StvkModel.build(MESH, SOFT, modes=2, fixed=FIXED)
    with pytest.raises(SuppleError, match="no sketch yet"):
        BodySketch(model, MESH).refined(unreported)
    model.save(tmp_path / "beam.stvk")
    loaded, mesh = prepared_body_and_mesh(str(tmp_path / "beam.stvk"))
    assert mesh is None
    assert "sketch" not in BodyActor(loaded).parts
    free = StvkModel.build(MESH, SOFT, modes=2)
    assert "sketch" not in BodyActor(free, BodySketch(free, MESH)).parts


def test_the_panel_makes_a_basis_and_saves_the_body(tmp_path: Path) -> None:
    from supple.app.viewer.page import Page
    from supple.app.viewer.panels.sketch_panel import SketchPanel

    session = sketched()
    before = session.actor.built
    with Page(session, port=0, folder=tmp_path) as page:
        panel = next(each for each in page._panels if isinstance(each, SketchPanel))
        panel.update()
        assert "30 loads recorded" in panel._state.content
        panel._work(None)
        for _ in range(200):
            if session.actor.built is not before:
                break
            page.clock.wait(0.05)
        panel._save(SimpleNamespace(client=None))
    assert page.clock.failure is None
    saved = StvkModel.load(tmp_path / "beam_sketch.stvk")
    np.testing.assert_array_equal(saved.basis, session.actor.built.basis)
    assert not np.allclose(saved.basis, before.basis)
