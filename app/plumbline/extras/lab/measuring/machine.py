"""What an experiment runs on, as far as it bears on its times."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plumbline import __version__
from plumbline.extras.lab.measuring.memory import how_taken

_PROCESSORS: Final = Path("/proc/cpuinfo")
# What times depend on; another version of ours does not make them incomparable.
_DECISIVE: Final = ("processor", "cores", "system")


def this_machine() -> dict[str, str]:
    """Processor, cores that this process may use, system, Python, our version, and how memory is taken."""
    return {
        "processor": _processor(),
        "cores": str(_cores()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "plumbline": __version__,
        "memory_by": how_taken(),
    }


def is_same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether times of the two can stand side by side."""
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
