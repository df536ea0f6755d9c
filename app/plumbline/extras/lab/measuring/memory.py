"""How much memory this process takes, and took at most."""

import resource
import sys
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_KIBIBYTE: Final = 1024


def peak_bytes() -> int:
    """The largest resident set so far, to some hundred kB; `VmHWM` where it is: `ru_maxrss` begins at the parent's."""
    return _status("VmHWM") or _ru_maxrss()


def resident_bytes() -> int:
    """The resident set now; where the system does not say it, the largest so far."""
    return _status("VmRSS") or _ru_maxrss()


def how_taken() -> str:
    """Where the figures come from, in words."""
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
