"""Processors of this machine, as Linux describes them: known before any model library is loaded."""

from pathlib import Path
from typing import Final

_NVIDIA_DRIVER: Final = Path("/proc/driver/nvidia/version")
_CPU_DESCRIPTION: Final = Path("/proc/cpuinfo")
# AVX512-BF16 (Intel since Cooper Lake, AMD since Zen 4) and AMX.
_BF16_FLAGS: Final = frozenset({"avx512_bf16", "amx_bf16"})


def has_nvidia_driver() -> bool:
    return _NVIDIA_DRIVER.exists()


def has_bf16_instructions(cpu_description: str) -> bool:
    """Return True if a CPU multiplies bf16 numbers itself, by its flags: emulated, they are slower than fp32."""
    flags = next((line for line in cpu_description.splitlines() if line.startswith("flags")), "")
    return not _BF16_FLAGS.isdisjoint(flags.split())


def describe_cpu() -> str:
    try:
        return _CPU_DESCRIPTION.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
