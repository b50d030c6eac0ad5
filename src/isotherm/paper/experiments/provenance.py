"""Where numbers come from: version, commit, date and machine."""

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from isotherm.data.processes import cores
from isotherm.lib.version import __version__


def describe() -> list[str]:
    """What a report says of its origin, a phrase each."""
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
    """The commit of the checkout that `folder` belongs to, with -dirty if files differ from it; None in no checkout.

    A folder that git does not track, such as an installed package in somebody's repository, belongs to no checkout.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        return git("describe", "--always", "--dirty", "--exclude", "*") if git("ls-files") else None
    except (OSError, subprocess.SubprocessError):
        return None


def processor() -> str:
    """Linux has the name only in /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine()
