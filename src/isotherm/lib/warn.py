"""Warnings that point at the user's line."""

import os
import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + os.sep


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the line, outside this package, whose call led here, however deep inside it is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
