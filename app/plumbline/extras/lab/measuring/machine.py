"""Memory of this process, and the machine that an experiment runs on as far as it bears on its times."""

import os
import platform
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plumbline import __version__

_STATUS: Final = Path("/proc/self/status")
_KIBIBYTE: Final = 1024


def peak_bytes() -> int:
    """Return the largest resident set so far; `VmHWM` if available: `ru_maxrss` starts at the parent's."""
    return _status("VmHWM") or _ru_maxrss()


def resident_bytes() -> int:
    """Return the current resident set; the largest so far where the system does not report it."""
    return _status("VmRSS") or _ru_maxrss()


def how_taken() -> str:
    """Return the source of the memory figures."""
    return "VmHWM of /proc/self/status" if _status("VmHWM") else "ru_maxrss of getrusage"


def _status(key: str) -> int:
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    found = next((line for line in lines if line.startswith(f"{key}:")), None)
    return 0 if found is None else int(found.split()[1]) * _KIBIBYTE


def _ru_maxrss() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * _KIBIBYTE


_PROCESSORS: Final = Path("/proc/cpuinfo")
# What times depend on; another version of ours does not make them incomparable.
_DECISIVE: Final = ("processor", "cores", "system")


def this_machine() -> dict[str, str]:
    """Return processor, usable cores, system, Python, our version, and the source of memory figures."""
    return {
        "processor": _processor(),
        "cores": str(_cores()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "plumbline": __version__,
        "memory_by": how_taken(),
    }


def is_same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return True if times of the two machines are comparable."""
    return all(one.get(key) == other.get(key) for key in _DECISIVE)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or "unknown"
