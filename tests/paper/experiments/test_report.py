"""results.json, results.csv and report.html: complete, escaped, self-contained, and a browser shows the page; where its
numbers come from: the checkout's commit, and no other repository's.
"""

import csv
import json
import re
import shutil
import subprocess
from html import escape

import jax
import numpy as np
import pytest

import isotherm
from isotherm.data.processes import cores
from isotherm.paper.experiments import plots, report
from isotherm.paper.experiments.report import Picture, Section
from isotherm.report.html import Entry, Table

ENTRIES = [
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


METHODS = ("SGHMC", "SGNHT", "CCAdL", "mCCAdL", "eCCAdL")


def section(folder):
    figure = plots.draw([[plots.Panel("h", [plots.Curve("a", [1, 2], [1.0, 2.0])])]], "passes", "loss")
    picture = Picture(plots.save(figure, folder / "figure.png"), "a <figure> & more")
    value = Entry("0.5405 ± 0.0334", "paper 0.1555 (+31.7 %)", "near", True)
    rows = [[Entry("A = 10, h = 0.00012"), *[value] * 4, Entry("NaN, step 7", "", "diverged")]]
    table = Table("losses", ["", *METHODS], rows, "Reference (NUTS): 0.1525.")
    return Section("Figure 2", "one\n\ntwo", [table], [picture], [{"passes": 200}])


@pytest.fixture
def page(tmp_path):
    return report.write_html("A report", [section(tmp_path)], tmp_path / "report.html", ["isotherm 1.2", "commit abc"])


def test_json_is_a_list_of_entries(tmp_path):
    path = report.write_json(ENTRIES, tmp_path / "results.json")
    assert json.loads(path.read_text()) == ENTRIES


def test_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.write_json([{"metrics": {"w2": float("nan")}}], tmp_path / "results.json")
    assert not (tmp_path / "results.json").exists()


def test_csv_has_a_line_an_entry_and_a_column_a_metric(tmp_path):
    path = report.write_csv(ENTRIES, tmp_path / "results.csv")
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
    assert "paper\N{NO-BREAK SPACE}0.1555" in text
    assert "class='near best'" in text
    assert "&quot;passes&quot;: 200" in text


def test_a_quick_run_says_so_first_and_a_full_one_does_not(page, tmp_path):
    assert "Quick run" not in page.read_text()
    quick = ["MNIST: 60 of 200 passes", "letter: 4 of 760 passes"]
    text = report.write_html("A report", [], tmp_path / "quick.html", ["isotherm 1.2"], quick).read_text()
    assert text.index("Quick run") < text.index("isotherm 1.2")
    assert "not comparable with the paper" in text
    assert all(length in text for length in quick)


def test_the_page_says_where_it_is_from_and_how_to_read_it(page):
    text = page.read_text()
    assert "isotherm 1.2 · commit abc" in text
    for explained in ("Bold: the best of its row", "± one standard deviation over seeds", "Shading", "NaN, step k"):
        assert explained in text
    assert all(shade in text for shade in report.SHADES.values())


def chromium(folder, page, *options):
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium here")
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    quiet = ["--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    words = [*command, *quiet, f"--user-data-dir={folder / 'home'}", *options, page.as_uri()]
    return subprocess.run(words, check=True, timeout=120, capture_output=True, text=True).stdout


@pytest.mark.parametrize("width", [1280, 500])
def test_a_browser_shows_the_page(page, tmp_path, width):
    shot = tmp_path / "shot.png"
    chromium(tmp_path, page, f"--screenshot={shot}", f"--window-size={width},900")
    import matplotlib.image

    pixels = matplotlib.image.imread(shot)
    assert pixels.shape[:2] == (900, width)
    assert np.ptp(pixels[..., :3]) > 0.5  # something is drawn
    assert (pixels[:, -3:, :3] > 0.99).all()  # and nothing runs over the right edge


COUNT = """<script>onload = () => {
  const inside = document.querySelector("iframe").contentDocument
  const cells = [...inside.querySelector("tbody tr").children]
  document.title = cells.filter(cell => cell.getBoundingClientRect().right <= 390).length
    + " cells, page " + inside.documentElement.scrollWidth
}</script>"""


def test_a_telephone_shows_several_columns_and_only_tables_scroll(page, tmp_path):
    """In a frame, as windows are at least 500 pixels wide."""
    frame = f'<iframe style="width:390px;border:0" srcdoc="{escape(page.read_text())}"></iframe>'
    (tmp_path / "telephone.html").write_text(f"<!doctype html>{frame}{COUNT}")
    title = re.search("<title>(.*)</title>", chromium(tmp_path, tmp_path / "telephone.html", "--dump-dom"))[1]
    cells, width = map(int, re.findall("[0-9]+", title))
    assert cells >= 1 + 2  # what the row is, and two columns at least
    assert width == 390


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_commit(tmp_path):
    assert report.commit(tmp_path) is None
    git(tmp_path, "init")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    assert report.commit(tmp_path / "package") is None  # in a repository that does not hold it
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "second")
    commit = git(tmp_path, "rev-parse", "--short", "HEAD")
    assert report.commit(tmp_path / "package") == commit
    (tmp_path / "package" / "module.py").write_text("1")
    assert report.commit(tmp_path / "package") == f"{commit}-dirty"


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert report.commit(tmp_path) is None


def test_the_machine_is_described():
    words = " · ".join(report.describe_origin())
    assert f"isotherm {isotherm.__version__}" in words
    assert f"{cores()} cores" in words
    assert f"JAX {jax.__version__}" in words
    assert report.processor() in words
    assert report.processor()
