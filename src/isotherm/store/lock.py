"""One writer a run folder."""

import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path

from isotherm.store.disk import StoreError

MOST_BYTES = 4096  # of a lock file that are read: ours are below 200


class Lock:
    """Held while this object is open. The kernel lets go of the lock when its process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self.file = os.fdopen(os.open(path, flags, 0o644), "r+")
        except OSError as error:
            raise StoreError(error.errno, f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = holder_of(self.file.read(MOST_BYTES))
            self.file.close()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise StoreError(error.errno, f"{path} cannot be locked: {error.strerror}") from error
            raise StoreError(
                errno.EAGAIN, f"{path.parent.parent} is in use by {holder}; wait for it or choose another store"
            ) from None
        self.file.seek(0)
        self.file.truncate()
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        self.file.write(json.dumps(owner) + "\n")
        self.file.flush()

    def release(self) -> None:
        """The file stays, and says who was last; without the kernel's lock it blocks nobody."""
        self.file.close()


def holder_of(text: str) -> str:
    """Who a lock file says holds it."""
    try:
        owner = json.loads(text)
        return f"process {int(owner['pid'])} on host {str(owner['host'])[:100]} since {str(owner['since'])[:30]}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return "another process"
