"""Reports as one HTML page: the frame, tables and pictures, all inside it, and nothing fetched from anywhere.
How the page looks is in page.css. Every text that comes in is escaped here."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files as package_files
from pathlib import Path
from typing import NamedTuple

from isotherm.lib import files


class Entry(NamedTuple):
    """One table cell: its words, a smaller line below, a shade (a class in page.css), and whether it is the best."""

    text: str
    detail: str = ""
    shade: str = ""
    best: bool = False


class Table(NamedTuple):
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""


def write(path: Path, title: str, body: str) -> Path:
    """Put a page in place; `title` is a text, `body` is HTML."""
    css = package_files("isotherm.report").joinpath("page.css").read_text(encoding="utf-8")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{css}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}\n"
        "</body></html>\n"
    )
    files.write(path, [page.encode(errors="replace")], durable=False)
    return path


def note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def table(table: Table, kind: str = "") -> str:
    """Return a table as HTML; `kind` is a class in page.css."""
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    named = not table.columns[0]  # the first entry says what its row is, and stays in view when the others are scrolled
    names = [f'<th scope="row">{_breakable(row[0].text)}</th>' if named else "" for row in table.rows]
    values = ["".join(_entry(entry) for entry in row[named:]) for row in table.rows]
    rows = "\n".join(f"<tr>{name}{value}</tr>" for name, value in zip(names, values, strict=True))
    look = f' class="{kind}"' if kind else ""
    return (
        f'{title}<div class="scroll"><table{look}><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note(table.caption) if table.caption else ''}"
    )


def _entry(entry: Entry) -> str:
    classes = " ".join(name for name in (entry.shade, "best" if entry.best else "") if name)
    detail = f"<small>{_breakable(entry.detail)}</small>" if entry.detail else ""
    return f"<td{f' class={classes!r}' if classes else ''}>{_breakable(entry.text)}{detail}</td>"


def _breakable(text: str) -> str:
    """Let lines end, on narrow screens, before ±, ( or a new quantity, but not within `A = 1`, `± 0.1` or `3 %`."""
    for together in (" = ", "± ", " %", "paper "):
        text = text.replace(together, together.replace(" ", "\N{NO-BREAK SPACE}"))
    return escape(text)


def texts(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    """Return a table of texts without a title."""
    return table(Table("", heads, [[Entry(text) for text in row] for row in rows]), kind)


def image(png: bytes, words: str) -> str:
    """Return a picture, and the words for those who do not see it."""
    return f'<img alt="{escape(words)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def pictures(title: str, named: Iterable[tuple[str, bytes]], caption: str) -> str:
    """Return pictures side by side, or one below the other on narrow screens, with one caption."""
    images = "".join(image(png, f"{title} {name}".strip()) for name, png in named)
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f'{head}<figure><div class="side-by-side">{images}</div><figcaption>{escape(caption)}</figcaption></figure>'
