"""A real browser finds nothing to stumble over: wide and on a phone, light and dark."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from experiments.report import write_report
from experiments.report.collect import collect
from experiments.report.svg_file import svg_files
from experiments.report.write import make_page
from tests.experiments.report.made_runs import make_run

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
pytestmark = pytest.mark.skipif(not BROWSER, reason="neither chromium nor google-chrome is here")
CHECKER = Path(__file__).with_name("checker.js").read_text()
WIDE, PHONE = 1280, 390


def findings(page: str, folder: Path, width: int, *, dark: bool = False) -> list[str]:
    """What `checker.js` says of a page in a frame of that width."""
    page = page.replace("<head>", f"<head><script>{CHECKER}</script>", 1)
    frame = folder / "frame.html"
    frame.write_text(
        '<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><iframe style="border:0;'
        f'width:{width}px;height:900px" srcdoc="{html.escape(page)}"></iframe></body>'
    )
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *(f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000"),
        *("--virtual-time-budget=5000", f"--blink-settings=preferredColorScheme={int(not dark)}"),
        *("--dump-dom", frame.as_uri()),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
    said = re.search(r'<pre id="findings">(.*?)</pre>', dom, flags=re.S)
    assert said, f"the checker did not run:\n{dom[-2000:]}"
    found = json.loads(html.unescape(said[1]))
    assert (found["width"], found["dark"]) == (width, dark)
    return found["findings"]


@pytest.mark.parametrize(("width", "dark"), [(WIDE, False), (PHONE, True), (700, False)])
def test_a_reader_stumbles_over_nothing(made, tmp_path, width, dark):
    page = (made / "report.html").read_text()
    assert findings(page, tmp_path, width, dark=dark) == []


@pytest.mark.parametrize("dark", [False, True])
def test_nor_over_charts_as_files(made, tmp_path, dark):
    """Each in a frame of its own, so that it has its own style alone."""
    for name, drawing in svg_files(make_page(collect(made))).items():
        body = f"<body style='background:var(--paper)'>{drawing}</body>"
        page = f"<!DOCTYPE html><html><head></head>{body}</html>"
        assert findings(page, tmp_path, WIDE, dark=dark) == [], name


def test_nor_where_most_is_missing(tmp_path):
    make_run(tmp_path / "paper_table_quick", "bload_exact", train__epochs=2)
    page = write_report(tmp_path).html.read_text()
    assert findings(page, tmp_path, PHONE) == []


def test_the_checker_sees_faults(tmp_path):
    page = (
        "<!DOCTYPE html><html><head></head><body style='background:#fff;color:#ccc'>pale<p>pale</p>"
        "<svg width=100 height=40><text x=0 y=20>one</text><text x=4 y=22>two</text>"
        "<text x=90 y=20>outside</text></svg><div style='width:2000px'>x</div>"
        "<img src='nothing.png'><script>nowhere()</script></body></html>"
    )
    found = "\n".join(findings(page, tmp_path, PHONE))
    for fault in (
        *("script error", "texts overlap: one | two", "text outside its drawing: outside"),
        *("wide in 390", "beyond the edge", "image missing", "contrast 1.6: pale"),
    ):
        assert fault in found
