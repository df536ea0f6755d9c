"""What a cold start costs: `plumbline serve` from nothing to its first answers over HTTP, and what commands import.

    python benchmarks/start.py [--rounds 3] [--lexical-only]

Each round starts a process without warm-up and asks it once by tier `lexical`, then once by tier `embedding`. CPU
seconds are those of the process and its children since it was started, memory is resident, in MiB; medians of rounds.
Files are read once before the first round, so that it is the interpreter that is measured and not a disk. The last
line is one JSON object.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SECONDS = 120.0
_SAMPLE = {
    "contexts": ["The dam at Keld was built in 1932. It is made of stone and 240 metres long."],
    "answer": "The dam was built in 1932. It is 240 metres long.",
}
# Seconds of import each, or a part of one.
_HEAVY = (
    "torch", "transformers", "sentence_transformers", "onnxruntime", "openvino", "sklearn", "scipy", "nltk", "openai",
    "httpx2", "numpy", "fastapi", "pydantic", "jinja2", "pyarrow", "psycopg", "uvicorn",
)  # fmt: skip
_COMMANDS = {
    "import plumbline.main": "import plumbline.main",
    "--version": "from plumbline.cli.main import main; main(['--version'])",
    "--help": "from plumbline.cli.main import main; main(['--help'])",
    "retrieval evaluate --help": "from plumbline.cli.main import main; main(['retrieval', 'evaluate', '--help'])",
    "score --help": "from plumbline.cli.main import main; main(['score', '--help'])",
}
_REPORT = """
import atexit, json, sys, time
atexit.register(lambda: sys.stderr.write(json.dumps(
    [time.process_time(), len(sys.modules), [name for name in %r if name in sys.modules]])))
%s
"""


def environment() -> dict[str, str]:
    """That of this process without the service's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLUMBLINE_", "DASHSCOPE_"))}
    return {**kept, "PYTHONPATH": f"{_ROOT / 'app'}:{_ROOT}"}


def imports(code: str) -> dict[str, object]:
    """What a process that runs the code costs and holds at its end."""
    command = [sys.executable, "-c", _REPORT % (_HEAVY, code)]
    ran = subprocess.run(command, capture_output=True, env=environment(), check=True)  # noqa: S603
    seconds, modules, heavy = json.loads(ran.stderr)
    return {"cpu_seconds": round(seconds, 2), "modules": modules, "heavy": heavy}


def stat_of(pid: str) -> list[str]:
    """The fields of /proc/PID/stat from the third on; none when the process has ended."""
    try:
        return Path("/proc", pid, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, of its children that ended and of those that run."""
    fields_by_pid = {each.name: stat_of(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()}
    family, count = {str(pid)}, 0
    while len(family) > count:
        count = len(family)
        family |= {child for child, fields in fields_by_pid.items() if fields and fields[1] in family}
    return sum(sum(map(int, fields_by_pid[each][11:15])) for each in family if fields_by_pid[each]) / _TICKS


def resident_mib(pid: int) -> float:
    """What the process holds in memory now."""
    return round(int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE / 2**20, 1)


def ask(port: int, tier: str) -> bool:
    """Whether the tier answered."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/evaluations",
        json.dumps({**_SAMPLE, "tiers": [tier], "deadline_seconds": _SECONDS}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
        result: dict[str, Any] = json.load(answer)
    if result["tier"] is None:
        print(result["trace"]["attempts"])
    return bool(result["tier"] == tier)


def port_of(process: "subprocess.Popen[str]") -> int:
    """The port that the service says it listens on."""
    assert process.stderr is not None
    for line in process.stderr:
        event = json.loads(line)
        if event["event"] == "listening":
            return int(event["port"])
    raise RuntimeError("the service ended before it listened")


def cold_start(tiers: tuple[str, ...], folder: str) -> dict[str, dict[str, float]]:
    """Of one process: what it had cost when it had answered by each tier."""
    env = {
        **environment(),
        "PLUMBLINE_WARM_UP": "false",
        "PLUMBLINE_DATA_DIR": folder,
        "PLUMBLINE_DEADLINE_SECONDS": str(_SECONDS),
    }
    command = [sys.executable, "-m", "plumbline.cli.main", "serve", "--port", "0"]
    began = time.perf_counter()
    found: dict[str, dict[str, float]] = {}
    with subprocess.Popen(command, env=env, cwd=_ROOT, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            port = port_of(process)
            for tier in tiers:
                has_answered = ask(port, tier)
                wall = time.perf_counter() - began
                if has_answered:
                    found[tier] = {
                        "cpu_seconds": round(cpu_seconds(process.pid), 2),
                        "wall_seconds": round(wall, 2),
                        "resident_mib": resident_mib(process.pid),
                    }
        finally:
            process.send_signal(signal.SIGTERM)
    return found


def medians(rounds: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Of each figure of each tier that answered in every round."""
    tiers = [tier for tier in rounds[0] if all(tier in each for each in rounds)]
    return {
        tier: {name: round(statistics.median(each[tier][name] for each in rounds), 2) for name in rounds[0][tier]}
        for tier in tiers
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lexical-only", action="store_true", help="no tier embedding: its model is not loaded")
    options = parser.parse_args()
    tiers = ("lexical",) if options.lexical_only else ("lexical", "embedding")
    with tempfile.TemporaryDirectory() as folder:
        cold_start(tiers, folder)
        rounds = [cold_start(tiers, folder) for _ in range(options.rounds)]
    loaded = {name: imports(code) for name, code in _COMMANDS.items()}
    for name, figures in loaded.items():
        print(name, figures)
    print(json.dumps({"first_answer": medians(rounds), "imports": loaded}))


if __name__ == "__main__":
    main()
