"""A hook of mkdocs: equations become MathML while the site is built, so that browsers need no script for them."""

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

FOUND = re.compile(r'<(span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    return FOUND.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["open"] == "[" else "inline"
    math = convert(unescape(found["latex"]).strip(), display=display)
    return f'<div class="equation">{math}</div>' if display == "block" else math
