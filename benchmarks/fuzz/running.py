"""One fuzzer at work: inputs until the time is up, each fault told once and kept in a file."""

import hashlib
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NoReturn

# A text of a fuzzer is short: this is far above anything linear, even with every branch counted.
SLOW_CPU_SECONDS = 2.0
_MAX_INPUT_BYTES = 4_096
_MAX_RANDOM_EDITS = 8


class SlowInput(Exception):
    """An input took so much CPU that something in it does not grow with its length."""


@dataclass
class Fuzzing:
    """What has been tried so far. `check` takes bytes and raises for a fault."""

    check: Callable[[bytes], None]
    findings_folder: Path
    executions: int = 0
    slowest: float = 0.0
    findings: dict[str, Path] = field(default_factory=dict)

    def one(self, data: bytes) -> None:
        """Tries one input; what is wrong is written down, and the fuzzing goes on."""
        self.executions += 1
        started = time.thread_time()
        try:
            self.check(data)
            spent = time.thread_time() - started
            self.slowest = max(self.slowest, spent)
            if spent > SLOW_CPU_SECONDS:
                raise SlowInput(f"{spent:.1f} s of CPU for {len(data)} bytes")
        except Exception as error:  # whatever it is, it is what is looked for
            self._note(error, data)

    def summary(self, seconds: float) -> str:
        """One line of figures."""
        return (
            f"{self.executions} executions in {seconds:.0f} s, slowest {self.slowest:.2f} s of CPU, "
            f"{len(self.findings)} findings"
        )

    def _note(self, error: Exception, data: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/app/" in frame.filename] or frames
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        key = f"{type(error).__name__} {where} {str(error)[:60] if isinstance(error, AssertionError) else ''}".strip()
        if key in self.findings:
            return
        self.findings_folder.mkdir(parents=True, exist_ok=True)
        path = self.findings_folder / hashlib.sha256(data).hexdigest()[:16]
        path.write_bytes(data)
        self.findings[key] = path
        print(f"FINDING {key}: {error} -> {path}", file=sys.stderr, flush=True)


def fuzz_with_atheris(
    atheris: ModuleType, fuzzing: Fuzzing, seeds: Sequence[bytes], *, seconds: float, seed: int, corpus: Path
) -> NoReturn:
    """Inputs that libFuzzer makes by what branches the last ones took; ends the process."""
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(data)
    started = time.monotonic()

    def one_input(data: bytes) -> None:
        fuzzing.one(data)
        spent = time.monotonic() - started
        if spent > seconds:
            print(fuzzing.summary(spent), f"corpus of {len(list(corpus.iterdir()))}", sep=", ", flush=True)
            os._exit(1 if fuzzing.findings else 0)

    options = [
        f"-seed={seed}",
        f"-max_len={_MAX_INPUT_BYTES}",
        "-rss_limit_mb=4096",
        "-timeout=600",
        "-report_slow_units=600",
        "-len_control=20",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one_input, enable_python_coverage=True)
    atheris.Fuzz()
    raise SystemExit(2)  # it does not come back


def fuzz_at_random(fuzzing: Fuzzing, seeds: Sequence[bytes], *, seconds: float, seed: int) -> int:
    """Inputs by chance, from nothing and from the seeds; where atheris is not installed. Returns the exit status."""
    chance, started = random.Random(seed), time.monotonic()  # noqa: S311  # no secret
    while time.monotonic() - started < seconds:
        fuzzing.one(_made(chance, seeds))
    print(fuzzing.summary(time.monotonic() - started))
    return 1 if fuzzing.findings else 0


def _made(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    if chance.random() < 0.5:
        return chance.randbytes(chance.choice((4, 16, 64, 256, 1_024)))
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, _MAX_RANDOM_EDITS)):
        at = chance.randrange(len(data) + 1)
        data[at : at + chance.randint(0, 4)] = chance.randbytes(chance.randint(0, 4))
    return bytes(data)
