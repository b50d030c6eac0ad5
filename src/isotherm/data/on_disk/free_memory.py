"""How much memory is free, by the system's own account."""

from collections.abc import Iterator
from pathlib import Path


def available(root: Path = Path("/")) -> int:
    """Return the bytes that this process could take now without any other being pushed out, by Linux's account and by
    the limits of its control groups; 0 where the system does not say. `root` is the folder of proc and sys."""
    free = 1024 * _bytes(root / "proc/meminfo", "MemAvailable:")
    return max(0, min(free, *_limits(root))) if free else 0


def _limits(root: Path) -> Iterator[int]:
    """Yield what each control group of this process leaves it, of version 2 or 1, from the innermost outwards."""
    yield 2**63
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        if controllers:
            base, files = root / "sys/fs/cgroup/memory", "total_inactive_file"
            most, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            base, files = root / "sys/fs/cgroup", "inactive_file"
            most, used = "memory.max", "memory.current"
        inner = base / path.strip("/")
        # In a container the path is the host's, and what is mounted begins with the container's own group.
        for folder in (each for each in (inner, *inner.parents) if each.is_relative_to(base)):
            limit = _text(folder / most).strip()
            if limit.isdigit():  # pages of files are given back when they are needed
                yield int(limit) - int(_text(folder / used).strip() or 0) + _bytes(folder / "memory.stat", files)


def _bytes(path: Path, name: str) -> int:
    """Return the number behind a name in a file of lines with a name and a number each; 0 if it is not there."""
    found = (line.split() for line in _text(path).splitlines() if line.startswith(name))
    return next((int(words[1]) for words in found if words[0] == name), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
