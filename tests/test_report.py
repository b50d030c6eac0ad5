"""results.json, results.csv and report.html: complete, escaped, self-contained, and a browser shows the page."""

import csv
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from isotherm import plots, report
from isotherm.report import Entry, Picture, Section, Table

CELLS = [
    {
        "experiment": "mnist",
        "dataset": "mnist-7-9",
        "sampler": "mccadl",
        "step_size": 5e-4,
        "friction": 1.0,
        "seed": 0,
        "metrics": {"expected_log_loss": 0.154, "predictive_error": None},
        "first_bad_step": None,
        "seconds": 1.5,
        "curves": {"passes": [1.0]},
        "settings": {"batch_size": 500},
    }
]


@pytest.fixture
def page(tmp_path):
    figure = plots.draw([[plots.Panel("h", [plots.Line("a", [1, 2], [1.0, 2.0])])]], "passes", "loss")
    picture = Picture(plots.save(figure, tmp_path / "figure.png"), "a <figure> & more")
    rows = [[Entry("A = 1"), Entry("0.154", "paper 0.1555", "near", True), Entry("NaN, step 7", "", "gone")]]
    table = Table("losses", ["", "mCCAdL", "CCAdL"], rows, "reference (NUTS): 0.1525")
    section = Section("Figure 2", "one\n\ntwo", [table], [picture], {"passes": 200})
    return report.write_html("A report", [section], tmp_path / "report.html")


def test_json_is_a_list_of_cells(tmp_path):
    path = report.write_json(CELLS, tmp_path / "results.json")
    assert json.loads(path.read_text()) == CELLS


def test_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.write_json([{"metrics": {"w2": float("nan")}}], tmp_path / "results.json")
    assert not (tmp_path / "results.json").exists()


def test_csv_has_a_line_a_cell_and_a_column_a_metric(tmp_path):
    path = report.write_csv(CELLS, tmp_path / "results.csv")
    (row,) = csv.DictReader(path.read_text().splitlines())
    assert row["sampler"] == "mccadl"
    assert float(row["expected_log_loss"]) == 0.154
    assert row["predictive_error"] == ""
    assert "curves" not in row


def test_the_page_is_self_contained_and_escaped(page):
    text = page.read_text()
    assert "a &lt;figure&gt; &amp; more" in text
    assert 'src="data:image/png;base64,' in text
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert "paper 0.1555" in text
    assert "class='near best'" in text
    assert "&quot;passes&quot;: 200" in text


@pytest.mark.parametrize("width", [1280, 500])
def test_a_browser_shows_the_page(page, tmp_path, width):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium here")
    shot = tmp_path / "shot.png"
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={shot}"]
    home = [f"--user-data-dir={tmp_path / 'home'}", f"--window-size={width},900"]
    subprocess.run([*command, *home, page.as_uri()], check=True, timeout=120, capture_output=True)
    import matplotlib.image

    pixels = matplotlib.image.imread(shot)
    assert pixels.shape[:2] == (900, width)
    assert np.ptp(pixels[..., :3]) > 0.5  # something is drawn
    assert (pixels[:, -3:, :3] > 0.99).all()  # and nothing runs over the right edge
