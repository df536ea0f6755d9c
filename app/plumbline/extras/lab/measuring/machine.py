"""Memory of this process, and the machine that an experiment runs on as far as it bears on its times."""

import os
import platform
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plumbline.ground.version import VERSION

_STATUS: Final = Path("/proc/self/status")
_KIBIBYTE: Final = 1024


def peak_bytes() -> int:
    """Return the largest resident set so far; `VmHWM` if available: `ru_maxrss` starts at the parent's."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmHWM") or largest * (1 if sys.platform == "darwin" else _KIBIBYTE)


def resident_bytes() -> int:
    """Return the current resident set; the largest so far where the system does not report it."""
    return _status("VmRSS") or peak_bytes()


def _status(key: str) -> int:
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    found = next((line for line in lines if line.startswith(f"{key}:")), None)
    return 0 if found is None else int(found.split()[1]) * _KIBIBYTE


_PROCESSORS: Final = Path("/proc/cpuinfo")
# What times depend on; another version of ours does not make them incomparable.
_DECISIVE: Final = ("processor", "cores", "system")


def this_machine() -> dict[str, str]:
    """Return processor, usable cores, system, Python, our version, and the source of memory figures."""
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "processor": named or platform.processor() or "unknown",
        "cores": str(cores),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "plumbline": VERSION,
        "memory_by": "VmHWM of /proc/self/status" if _status("VmHWM") else "ru_maxrss of getrusage",
    }


def is_same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return True if times of the two machines are comparable."""
    return all(one.get(key) == other.get(key) for key in _DECISIVE)
