"""Whether the service stays right and flat when one request in ten is hostile.

    python benchmarks/hostile.py [--requests 10000] [--concurrency 64] [--seed 1] [--only lexical,embedding]

`plumbline serve` in a process of its own, with keys, jobs and a scripted judge on loopback. Honest requests
(evaluations in English and Chinese, batches as lines, jobs from their making to their end, retrieval from JSON and from
files, probes, metrics) and attacks (`hostile_requests.py`) come in the order of the seed. Every answer is held against
the one that is right, refusals also against RFC 9457. Rounds: `lexical` asks the tiers lexical and llm, `embedding`
loads the model and asks tier embedding. Memory, threads and descriptors are read off /proc; "settled" is with nobody
calling. Linux. Prints tables in Markdown; ends with 1 when an answer was wrong, memory grew by 10 % or more, or a
descriptor was left.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.hostile_load import Mixture
from benchmarks.hostile_requests import BODY_SECONDS, Keys, attacks
from benchmarks.process_figures import Held, held_by
from benchmarks.service_process import ServiceProcess, running_service
from plumbline.service.access.keys import KEYS_FILE_NAME, Scope, revoke_key
from tests.running.judge_process import judge_process
from tests.running.keyed_service import made_key

ROUNDS = {"lexical": ["lexical", "llm"], "embedding": ["embedding"]}
_JUDGE_SECONDS = 0.02
_SAMPLES_OF_FIGURES = 16
# uvicorn keeps a connection for 5 s after an answer.
_SETTLE_SECONDS = 20.0
_MOST_GROWTH = 0.10


@contextmanager
def hostile_service(
    round_name: str, folder: Path, *, body_seconds: float = BODY_SECONDS
) -> Iterator[tuple[ServiceProcess, int, Keys]]:
    """The service of a round with its port and its keys; all that it keeps is in the folder."""
    keys = made_keys(folder)
    knobs = {
        "PLUMBLINE_DATA_DIR": str(folder),
        "PLUMBLINE_LLM_PROVIDER": "generic",
        "PLUMBLINE_LLM_MODEL": "judge-1",
        "PLUMBLINE_BODY_TIMEOUT_SECONDS": str(body_seconds),
        "PLUMBLINE_WARM_UP": str(round_name == "embedding"),
        "PLUMBLINE_LOG_LEVEL": "ERROR",
    }
    with judge_process(latency_seconds=_JUDGE_SECONDS) as judge:
        address = {"PLUMBLINE_LLM_BASE_URL": judge.base_url}
        with running_service({**knobs, **address}, needs_model=round_name == "embedding") as service:
            yield service, int(service.base_url.rpartition(":")[2]), keys


def made_keys(folder: Path) -> Keys:
    """Keys in the file of this data folder."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = Keys(made_key(folder, "good"), made_key(folder, "evaluator", Scope.EVALUATE), made_key(folder, "revoked"))
    revoke_key(folder / KEYS_FILE_NAME, "revoked")
    return keys


def settled(service: ServiceProcess, port: int) -> Held:
    """What it holds once every caller has left."""
    until = time.monotonic() + _SETTLE_SECONDS
    while (held := held_by(service.pid, port)).callers and time.monotonic() < until:
        time.sleep(0.1)
    return held


def one_round(name: str, options: argparse.Namespace) -> bool:
    """Runs it and prints its tables; whether all was well."""
    with tempfile.TemporaryDirectory() as place, hostile_service(name, Path(place, "data")) as (service, port, keys):
        mixture = Mixture(port, keys.good, attacks(keys), ROUNDS[name], seed=options.seed)
        figures: list[tuple[str, Held]] = [("started", settled(service, port))]
        step = max(1, (options.requests - options.warm_up) // _SAMPLES_OF_FIGURES)

        def look(sent: int) -> None:
            if sent % step == 0:
                figures.append((str(sent), held_by(service.pid, port)))

        started = time.perf_counter()
        asyncio.run(mixture.run(options.warm_up, concurrency=options.concurrency))
        warm = settled(service, port)
        figures.append((f"{mixture.tally.sent.total()}, settled", warm))
        asyncio.run(mixture.run(options.requests - options.warm_up, concurrency=options.concurrency, each=look))
        seconds = time.perf_counter() - started
        end = settled(service, port)
        figures.append((f"{mixture.tally.sent.total()}, settled", end))
        left_over = [str(each.relative_to(place)) for each in Path(place, "data").rglob("*") if each.is_file()]
    tally = mixture.tally
    hostile = sum(count for kind, count in tally.sent.items() if kind.startswith("!"))
    print(f"\n### {name}: {tally.sent.total()} requests, {hostile} of them hostile, {seconds:.0f} s\n")
    print("| kind | sent | wrong | first that was wrong |\n|---|---|---|---|")
    for kind, count in sorted(tally.sent.items(), key=lambda each: (each[0].startswith("!"), each[0])):
        print(f"| {kind} | {count} | {tally.wrong[kind]} | {tally.first.get(kind, '')} |")
    print(
        "\n| sent | rss MiB | anonymous MiB | threads | callers | listening | outgoing | files | others |\n|"
        + "---|" * 9
    )
    for when, held in figures:
        print(f"| {when} | {held.line()} |")
    growth = end.rss_mib / warm.rss_mib - 1
    left = end.callers + max(0, end.files - warm.files) + max(0, end.others - warm.others)
    found = {
        "round": name,
        "requests": tally.sent.total(),
        "hostile": hostile,
        "wrong": tally.wrong.total(),
        "growth_settled_percent": round(growth * 100, 2),
        "growth_anonymous_percent": round((end.anonymous_mib / warm.anonymous_mib - 1) * 100, 2),
        "descriptors": [warm.descriptors, end.descriptors],
        "descriptors_left": left,
        "files_in_data_folder": sorted(left_over),
        "seconds": round(seconds, 1),
    }
    print("\n" + json.dumps(found), flush=True)
    return not tally.wrong.total() and growth < _MOST_GROWTH and not left


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument(
        "--warm-up", type=int, default=2_000, help="of them, before memory counts (default: %(default)s)"
    )
    parser.add_argument("--concurrency", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(ROUNDS), help="default: both")
    options = parser.parse_args()
    is_well = [one_round(name, options) for name in options.only]
    sys.exit(not all(is_well))


if __name__ == "__main__":
    main()
