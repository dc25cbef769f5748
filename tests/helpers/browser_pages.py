"""Pages of the viewer in a real browser, drawn without a graphics card."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

SOFTWARE = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SIZE = {"width": 800, "height": 480}
PATIENCE = 60_000  # ms: a page drawn without a graphics card, on a busy computer
#: Without a card a page keeps a core busy with drawing: it draws less often, and edges are rough.
PLAINLY = """
window.requestAnimationFrame = draw => setTimeout(() => draw(performance.now()), 60);
window.cancelAnimationFrame = drawing => clearTimeout(drawing);
const context = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, how) {
  return context.call(this, kind, { ...how, antialias: false });
};
"""


def running_browser() -> Iterator[Any]:
    """Yield a Chromium browser; skip if there is none."""
    reason = "playwright is not installed"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    chromium = os.environ.get("SUPPLE_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium; apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=SOFTWARE)
        yield opened
        opened.close()


def open_tab(
    browser: Any, page: Any, size: dict[str, int] | None = None, hint: str = "Drag the skin"
) -> Any:
    """Open a page without expensive effects, and wait until it is drawn."""
    page.server.scene.configure_default_lights(cast_shadow=False)
    page.server.scene.configure_environment_map(None)
    tab = browser.new_page(viewport=size or SIZE)
    tab.set_default_timeout(PATIENCE)
    tab.add_init_script(PLAINLY)
    tab.goto(page.address)
    tab.wait_for_selector("canvas[data-engine]")
    tab.get_by_text(hint).wait_for()
    return tab


def until(tab: Any, fact: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds while the browser runs."""
    for _ in range(PATIENCE // 100):
        if fact():
            return
        tab.wait_for_timeout(100)
    pytest.fail(f"never: {what}")
