"""The files that `isotherm reproduce` leaves: results.json, results.csv and report.html, one page with all in it, which
says where its numbers come from: version, commit, date and machine.
"""

import csv
import io
import json
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from isotherm.data.processes import cores
from isotherm.lib import files
from isotherm.lib.types import Json
from isotherm.lib.version import __version__
from isotherm.report import html
from isotherm.report.html import Table

SHADES = {
    "near": "within 1 % of the reference",
    "close": "within 5 %",
    "off": "within 20 %",
    "far": "further away",
    "diverged": "diverged",
}
QUICK = "Quick run: shorter than the full experiment, so its numbers are not comparable with the paper's."
HOW_TO_READ = (
    "A is the friction, h the step size. Values are means ± one standard deviation over seeds, without ± where there "
    "is one seed or no difference between them. Bold: the best of its row, which is the value nearest to the reference "
    "where there is one and the lowest elsewhere. “NaN, step k”: at least one seed diverged, the first one at step k. "
    "Shading compares with the reference (NUTS on all the data, or the exact posterior), where there is one:"
)


class Picture(NamedTuple):
    path: Path
    caption: str


class Section(NamedTuple):
    """One experiment, or the reason why it was left out."""

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    settings: Sequence[Json] = ()


def write_json(entries: Sequence[Json], path: Path) -> Path:
    """Write the entries as a list; None for NaN, which JSON does not have."""
    return _write(path, json.dumps(list(entries), indent=1, allow_nan=False) + "\n")


def write_csv(entries: Sequence[Json], path: Path) -> Path:
    """Write one line an entry: what it is, then its metrics; lists and settings stay in results.json."""
    plain = [
        {name: value for name, value in entry.items() if not isinstance(value, dict | list)} | entry["metrics"]
        for entry in entries
    ]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(name for entry in plain for name in entry)), restval="")
    writer.writeheader()
    writer.writerows(plain)
    return _write(path, text.getvalue())


def write_html(
    title: str, sections: Sequence[Section], path: Path, provenance: Sequence[str], quick: Sequence[str] = ()
) -> Path:
    """Write one page. `provenance` says where the numbers come from, `quick` how much shorter than in full each part of
    a quick run was."""
    items = "".join(f"<li>{escape(length)}</li>" for length in quick)
    banner = f'<div class="quick"><strong>{escape(QUICK)}</strong><ul>{items}</ul></div>' if quick else ""
    key = "".join(f'<span class="{shade}">{escape(words)}</span>' for shade, words in SHADES.items())
    body = "\n".join(_section(section) for section in sections)
    notes = f'{html.note(" · ".join(provenance))}\n{html.note(HOW_TO_READ)}<p class="note key">{key}</p>'
    return html.write(path, title, f"{banner}{notes}\n{body}")


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in section.text.split("\n\n") if paragraph]
    for picture in section.pictures:  # of several panels, which are scrolled on narrow screens
        image, caption = html.image(picture.path.read_bytes(), picture.caption), escape(picture.caption)
        parts.append(f'<figure><div class="scroll">{image}</div><figcaption>{caption}</figcaption></figure>')
    parts += [html.table(table) for table in section.tables]
    if section.settings:
        settings = escape(json.dumps(list(section.settings), indent=1, ensure_ascii=False))
        parts.append(f"<details><summary>settings</summary><pre>{settings}</pre></details>")
    return "\n".join(parts)


def _write(path: Path, text: str) -> Path:
    files.write(path, [text.encode()], durable=False)
    return path


def describe_origin() -> list[str]:
    """Describe the origin of a report, a phrase each."""
    revision = commit(Path(__file__).parent)
    return [
        f"isotherm {__version__}",
        *([f"commit {revision}"] if revision else []),
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"{processor()}, {cores()} cores",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, JAX {version('jax')}",
    ]


def commit(folder: Path) -> str | None:
    """Return the commit of the checkout that tracks `folder`, with -dirty if files differ from it; None without one."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        return git("describe", "--always", "--dirty", "--exclude", "*") if git("ls-files") else None
    except (OSError, subprocess.SubprocessError):
        return None


def processor() -> str:
    """Return the processor's name, which Linux has only in /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine()
