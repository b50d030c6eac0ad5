"""Threads: how many run at once, and the lock under which JAX traces."""

import os
import threading

# One thread at a time traces: JAX's caches compare programs by Python's own `==`, during which another thread may run
# and change them; where a user has threads of their own, that has once ended in a segmentation fault.
TRACING = threading.RLock()


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
