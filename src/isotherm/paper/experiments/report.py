"""The files that `isotherm reproduce` leaves: results.json, results.csv and report.html, one page with all in it."""

import csv
import io
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from isotherm.lib import files
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
    settings: Any = None


def write_json(entries: Sequence[dict[str, Any]], path: Path) -> Path:
    """The entries as a list; None for NaN, which JSON does not have."""
    return _write(path, json.dumps(list(entries), indent=1, allow_nan=False) + "\n")


def write_csv(entries: Sequence[dict[str, Any]], path: Path) -> Path:
    """One line an entry: what it is, then its metrics; lists and settings stay in results.json."""
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
    """One page, figures inside it, nothing fetched from anywhere.

    `provenance` says where the numbers come from; `quick` how much shorter than in full each part of a quick run was.
    """
    items = "".join(f"<li>{escape(length)}</li>" for length in quick)
    banner = f'<div class="quick"><strong>{escape(QUICK)}</strong><ul>{items}</ul></div>' if quick else ""
    key = "".join(f'<span class="{shade}">{escape(words)}</span>' for shade, words in SHADES.items())
    body = "\n".join(_section(section) for section in sections)
    notes = f'{html.note(" · ".join(provenance))}\n{html.note(HOW_TO_READ)}<p class="note key">{key}</p>'
    return html.write(path, title, f"{banner}{notes}\n{body}")


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in section.text.split("\n\n") if paragraph]
    parts += [html.wide_picture(picture.path.read_bytes(), picture.caption) for picture in section.pictures]
    parts += [html.table(table) for table in section.tables]
    if section.settings is not None:
        settings = escape(json.dumps(section.settings, indent=1, ensure_ascii=False))
        parts.append(f"<details><summary>settings</summary><pre>{settings}</pre></details>")
    return "\n".join(parts)


def _write(path: Path, text: str) -> Path:
    files.write(path, [text.encode()], durable=False)
    return path
