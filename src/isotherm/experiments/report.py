"""The files that `isotherm reproduce` leaves: results.json, results.csv and report.html, one page with all in it.

How the page looks is in report.css.
"""

import base64
import csv
import io
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, NamedTuple

from isotherm import files

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


class Entry(NamedTuple):
    """One table cell: its words, a smaller line below, a shade (a key of SHADES), and whether it is the best."""

    text: str
    detail: str = ""
    shade: str = ""
    best: bool = False


class Table(NamedTuple):
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""


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
    css = package_files("isotherm.experiments").joinpath("report.css").read_text(encoding="utf-8")
    items = "".join(f"<li>{escape(length)}</li>" for length in quick)
    banner = f'<div class="quick"><strong>{escape(QUICK)}</strong><ul>{items}</ul></div>' if quick else ""
    key = "".join(f'<span class="{shade}">{escape(words)}</span>' for shade, words in SHADES.items())
    body = "\n".join(_section(section) for section in sections)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{css}</style></head>\n<body><h1>{escape(title)}</h1>\n{banner}"
        f'<p class="note">{escape(" · ".join(provenance))}</p>\n<p class="note">{escape(HOW_TO_READ)}</p>'
        f'<p class="note key">{key}</p>\n{body}\n</body></html>\n'
    )
    return _write(path, page)


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in section.text.split("\n\n") if paragraph]
    parts += [_picture(picture) for picture in section.pictures]
    parts += [_table(table) for table in section.tables]
    if section.settings is not None:
        settings = escape(json.dumps(section.settings, indent=1, ensure_ascii=False))
        parts.append(f"<details><summary>settings</summary><pre>{settings}</pre></details>")
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    named = not table.columns[0]  # the first entry says what its row is, and stays in view when the others are scrolled
    names = [f'<th scope="row">{_breakable(row[0].text)}</th>' if named else "" for row in table.rows]
    values = ["".join(_entry(entry) for entry in row[named:]) for row in table.rows]
    rows = "\n".join(f"<tr>{name}{value}</tr>" for name, value in zip(names, values, strict=True))
    caption = f'<p class="note">{escape(table.caption)}</p>' if table.caption else ""
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{caption}"
    )


def _entry(entry: Entry) -> str:
    classes = " ".join(name for name in (entry.shade, "best" if entry.best else "") if name)
    detail = f"<small>{_breakable(entry.detail)}</small>" if entry.detail else ""
    return f"<td{f' class={classes!r}' if classes else ''}>{_breakable(entry.text)}{detail}</td>"


def _breakable(text: str) -> str:
    """For narrow screens: a line may end before ±, ( or a new quantity, but not within `A = 1`, `± 0.1` or `3 %`."""
    for together in (" = ", "± ", " %", "paper "):
        text = text.replace(together, together.replace(" ", "\N{NO-BREAK SPACE}"))
    return escape(text)


def _picture(picture: Picture) -> str:
    content = base64.b64encode(picture.path.read_bytes()).decode()
    caption = escape(picture.caption)
    image = f'<img alt="{caption}" src="data:image/png;base64,{content}">'
    return f'<figure><div class="scroll">{image}</div><figcaption>{caption}</figcaption></figure>'


def _write(path: Path, text: str) -> Path:
    files.write(path, [text.encode()], durable=False)
    return path
