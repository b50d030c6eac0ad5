"""What a run of experiments leaves behind: results.json, results.csv and report.html, one self-contained page."""

import base64
import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from isotherm.version import __version__

SHADES = {
    "near": "within 1 % of the reference",
    "close": "within 5 %",
    "off": "within 20 %",
    "far": "further away",
    "gone": "diverged",
}
CSS = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1rem; color: #1b1b1b; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.3rem; margin-top: 2.5rem; border-top: 1px solid #ccc;
padding-top: 1rem; } h3 { font-size: 1rem; margin-bottom: .3rem; }
.scroll { overflow-x: auto; margin: .5rem 0 1rem; } table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .3rem .6rem; border: 1px solid #ddd; text-align: right; white-space: nowrap; }
th { background: #f4f4f4; text-align: center; } td:first-child, td.text { text-align: left; }
td small { display: block; color: #555; font-size: .72rem; font-weight: 400; } td.best { font-weight: 700; }
td:first-child { position: sticky; left: 0; background: #fff; }
.near { background: #b7e1cd; } .close { background: #e2f3e9; } .off { background: #fde9b8; }
.far { background: #f6c7b6; }
.gone { background: #e4e4e4; } .key span {
padding: .1rem .5rem; margin-right: .4rem; font-size: .8rem; white-space: nowrap;
display: inline-block; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; } figcaption, .note { font-size: .85rem; color: #444; }
details { margin: .5rem 0; } pre { font-size: .75rem; overflow-x: auto; background: #f7f7f7; padding: .6rem; }
@media (max-width: 40rem) { body { padding: .6rem; font-size: 15px; } th, td { padding: .25rem .4rem; }
figure .scroll img { max-width: none; width: 46rem; } }
"""


@dataclass(frozen=True)
class Entry:
    """One table cell: its words, a smaller line below, a shade (a key of SHADES), and whether it is the best."""

    text: str
    detail: str = ""
    shade: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    path: Path
    caption: str


@dataclass(frozen=True)
class Section:
    """One experiment, or one thing to say."""

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    settings: Any = None


def write_json(cells: Sequence[dict[str, Any]], path: Path) -> Path:
    """The cells as a list; no NaN, which JSON does not have: null instead."""
    return _write(path, json.dumps(list(cells), indent=1, allow_nan=False) + "\n")


def write_csv(cells: Sequence[dict[str, Any]], path: Path) -> Path:
    """One line a cell: what it is, then its metrics; lists and settings stay in results.json."""
    plain = [_flat(cell) for cell in cells]
    columns = list(dict.fromkeys(name for cell in plain for name in cell))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(plain)
    return path


def write_html(title: str, sections: Sequence[Section], path: Path) -> Path:
    """One page, figures inside it, nothing fetched from anywhere."""
    body = "\n".join(_section(section) for section in sections)
    key = "".join(f'<span class="{shade}">{escape(words)}</span>' for shade, words in SHADES.items())
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head>\n<body><h1>{escape(title)}</h1>"
        f'<p class="note">isotherm {escape(__version__)}. Values are means ± standard deviation over seeds.</p>'
        f'<p class="key">{key}</p>\n{body}\n</body></html>\n'
    )
    return _write(path, page)


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(words)}</p>" for words in section.text.split("\n\n") if words]
    parts += [_picture(picture) for picture in section.pictures]
    parts += [_table(table) for table in section.tables]
    if section.settings is not None:
        said = escape(json.dumps(section.settings, indent=1, ensure_ascii=False))
        parts.append(f"<details><summary>settings</summary><pre>{said}</pre></details>")
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "\n".join("<tr>" + "".join(_entry(entry) for entry in row) + "</tr>" for row in table.rows)
    caption = f'<p class="note">{escape(table.caption)}</p>' if table.caption else ""
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{caption}"
    )


def _entry(entry: Entry) -> str:
    classes = " ".join(name for name in (entry.shade, "best" if entry.best else "") if name)
    detail = f"<small>{escape(entry.detail)}</small>" if entry.detail else ""
    return f"<td{f' class={classes!r}' if classes else ''}>{escape(entry.text)}{detail}</td>"


def _picture(picture: Picture) -> str:
    content = base64.b64encode(picture.path.read_bytes()).decode()
    said = escape(picture.caption)
    image = f'<img alt="{said}" src="data:image/png;base64,{content}">'
    return f'<figure><div class="scroll">{image}</div><figcaption>{said}</figcaption></figure>'


def _flat(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell without its lists, metrics as columns of their own."""
    plain = {name: value for name, value in cell.items() if not isinstance(value, dict | list)}
    return plain | {name: "" if value is None else value for name, value in cell["metrics"].items()}


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    return beside.replace(path)
