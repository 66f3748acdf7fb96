"""Pages and pictures in a real browser, where there is one: the script runs, and no text is wider than its box."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from fluvial.planner import Plan, draw
from tests.planner.drawing.samples import HOSTILE, circle, visits, worded

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH: the pages are not tried in a browser")

# Measures each text against the shape that is drawn first around it, and leaves the result in the page.
MEASURE = """<script>
const wrong = [];
for (const section of document.querySelectorAll("section")) {
  section.hidden = false;
  for (const group of section.querySelectorAll(".node, .label, .around")) {
    const frame = group.querySelector("rect")?.getBBox();
    for (const text of frame ? group.querySelectorAll("text") : []) {
      const box = text.getBBox();
      const fits = box.x >= frame.x && box.x + box.width <= frame.x + frame.width && box.y >= frame.y - 1;
      if (!fits || box.y + box.height > frame.y + frame.height + 1) wrong.push(text.textContent);
    }
  }
}
document.documentElement.dataset.texts = document.querySelectorAll("section text").length;
document.documentElement.dataset.wrong = JSON.stringify(wrong);
</script>"""


def opened(page: str, folder: Path) -> str:
    """What is in a page after its scripts have run."""
    file = folder / "page.html"
    file.write_text(page, "utf-8")
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    alone = ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder / 'profile'}"]
    command = [str(BROWSER), *quiet, *alone, "--dump-dom", file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def attribute(dom: str, name: str) -> str:
    found = re.search(rf'<html[^>]* data-{name}="([^"]*)"', dom)
    assert found is not None, f"no data-{name}: the script did not run"
    return unescape(found[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan", [visits(), circle(), worded(" ".join(HOSTILE[:9])), worded("漢字 שלום 👨‍👩‍👧")], ids=range(4)
)
def test_the_script_runs_and_no_text_leaves_its_box(plan: Plan, tmp_path: Path) -> None:
    dom = opened(draw(plan, "html").replace("</body>", MEASURE + "</body>"), tmp_path)
    assert attribute(dom, "ready") == "yes"
    assert int(attribute(dom, "texts")) > 20
    assert json.loads(attribute(dom, "wrong")) == []


@pytest.mark.slow
def test_a_node_that_is_asked_tells_its_facts_and_lights_its_ways(tmp_path: Path) -> None:
    ask = """<script>
    document.querySelectorAll("section")[0].querySelectorAll("[data-node]")[4].dispatchEvent(new Event("focus"));
    </script>"""
    dom = opened(draw(visits(), "html").replace("</body>", ask + "</body>"), tmp_path)
    card = dom.partition('id="card"')[2].partition("</aside>")[0]
    assert "pipelines/visits.py:14" in card
    assert dom.count('class="edge flow near"') > dom.count('class="edge aside near"') == 0


@pytest.mark.slow
def test_buttons_keys_and_wheel_change_what_is_seen(tmp_path: Path) -> None:
    try_all = """<script>
    const svg = () => document.querySelector("section:not([hidden]) svg");
    const seen = () => svg().getAttribute("viewBox");
    const press = (name) => document.querySelector(name).click();
    const key = (name) => dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true }));
    const pointer = (name, x) => svg().dispatchEvent(new PointerEvent(name, { pointerId: 1, clientX: x, button: 0 }));
    svg().setPointerCapture = () => {};
    const drag = () => { pointer("pointerdown", 10); pointer("pointermove", 90); pointer("pointerup", 90); };
    const wheel = () => svg().dispatchEvent(new WheelEvent("wheel", { deltaY: -200, cancelable: true }));
    const start = seen();
    const deeds = {
      larger: () => press("[data-do=in]"), smaller: () => press("[data-do=out]"), plus: () => key("+"), wheel, drag,
      left: () => key("ArrowLeft"), stages: () => press("[data-show=stages]"),
    };
    const idle = (deed) => { const before = seen(); deed(); return before === seen(); };
    const still = Object.keys(deeds).filter((name) => idle(deeds[name]));
    press("[data-show=operators]");
    document.documentElement.dataset.still = still.join();
    document.documentElement.dataset.fitted = String(start === seen());
    </script>"""
    dom = opened(draw(visits(), "html").replace("</body>", try_all + "</body>"), tmp_path)
    assert attribute(dom, "still") == ""
    assert attribute(dom, "fitted") == "true"


@pytest.mark.slow
def test_the_first_view_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    dom = opened(draw(visits(), "html", view="stages"), tmp_path)
    assert re.search(r'<section data-view="operators" hidden', dom)
    assert re.search(r'<section data-view="stages">', dom)
