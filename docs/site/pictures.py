"""Draw the pictures of docs/guide/gallery.md: run the Python blocks of the page, in order, where its pictures are."""

import os
import re
from pathlib import Path

DOCS = Path(__file__).parents[1]

if __name__ == "__main__":
    page = (DOCS / "guide/gallery.md").read_text()
    os.chdir(DOCS / "images")
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        exec(block, names)
