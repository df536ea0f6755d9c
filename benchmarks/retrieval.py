"""Speed of the retrieval measures beside pytrec_eval, ranx and FastAPI's default path, in CPU seconds of one run.

    pip install pytrec-eval-terrier ranx
    python -m benchmarks.retrieval [--queries 6980] [--documents 1000] [--rounds 3]

22 values a query: recall, precision, success at 1, 3, 5, 10, 20, 100; MRR; NDCG@10; MAP@10; MAP@100. Medians of
`--rounds`, the ways in turn. Prints a table and ends with one line of JSON: `ratios` are theirs / ours.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.service_process import cpu_seconds_of
from plumbline.ground.settings import Settings
from plumbline.main import create_app
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.evaluation import evaluate
from plumbline.retrieval.inputs import read_qrels, read_run
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.run import Run

CUTOFFS = (1, 3, 5, 10, 20, 100)
MEASURES = parse_measures(
    [
        *(f"{name}@{k}" for name in ("recall", "precision", "success") for k in CUTOFFS),
        "mrr",
        "ndcg@10",
        "map@10",
        "map@100",
    ]
)
PYTREC = {
    "recall.1,3,5,10,20,100",
    "P.1,3,5,10,20,100",
    "success.1,3,5,10,20,100",
    "recip_rank",
    "ndcg_cut.10",
    "map_cut.10,100",
}
RANX = [*(f"{name}@{k}" for name in ("recall", "precision", "hit_rate") for k in CUTOFFS)]
RANX += ["mrr", "ndcg@10", "map@10", "map@100"]
ORIGIN = "http://127.0.0.1:8000"

Scores = dict[str, dict[str, float]]
Grades = dict[str, dict[str, int]]


def make(queries: int, documents: int, seed: int = 0) -> tuple[Grades, Scores]:
    """Judgments with 1 to 10 graded documents a query, and a run that finds about half of them."""
    rng = np.random.default_rng(seed)
    qrels: Grades = {}
    run: Scores = {}
    for query in range(queries):
        ids = rng.choice(8_800_000, size=documents, replace=False)
        scores = np.sort(rng.normal(20, 4, documents))[::-1].round(4)
        found = rng.choice(documents, size=int(rng.integers(1, 6)), replace=False)
        qrels[f"q{query}"] = {f"d{ids[place]}": int(rng.integers(1, 4)) for place in found}
        qrels[f"q{query}"] |= {f"x{query}-{other}": 1 for other in range(int(rng.integers(0, 5)))}
        run[f"q{query}"] = {f"d{each}": float(score) for each, score in zip(ids, scores, strict=True)}
    return qrels, run


def ours(qrels: Grades, run: Scores) -> dict[str, float | None]:
    return dict(evaluate(qrels, Run("run", run), MEASURES, conventions=build_conventions("trec_eval")).means)


def pytrec(qrels: Grades, run: Scores) -> dict[str, float]:
    import pytrec_eval  # noqa: PLC0415 - an oracle that need not be installed

    per_query = pytrec_eval.RelevanceEvaluator(qrels, PYTREC).evaluate(run)
    return {
        name: statistics.fmean(each[name] for each in per_query.values()) for name in next(iter(per_query.values()))
    }


def write_trec(qrels: Grades, run: Scores, folder: Path) -> tuple[Path, Path]:
    judged, ranked = folder / "qrels.txt", folder / "run.txt"
    judged.write_text("".join(f"{q} 0 {d} {g}\n" for q, each in qrels.items() for d, g in each.items()))
    with ranked.open("w") as file:
        for query, scores in run.items():
            file.writelines(f"{query} Q0 {d} {rank} {s} bench\n" for rank, (d, s) in enumerate(scores.items(), start=1))
    return judged, ranked


def ours_from_text(judged: Path, ranked: Path) -> None:
    qrels, run = read_qrels(judged).qrels, read_run(ranked, name="run").run
    evaluate(qrels, run, MEASURES, conventions=build_conventions("trec_eval"))


def pytrec_from_text(judged: Path, ranked: Path) -> None:
    import pytrec_eval  # noqa: PLC0415 - an oracle that need not be installed

    with judged.open() as file:
        qrels = pytrec_eval.parse_qrel(file)
    with ranked.open() as file:
        pytrec(qrels, pytrec_eval.parse_run(file))


class DefaultBody(BaseModel):
    qrels: dict[str, dict[str, int]]
    run: dict[str, dict[str, float]]


@contextmanager
def http_paths(qrels: Grades, run: Scores) -> Iterator[tuple[Callable[[], None], Callable[[], None], int]]:
    """The same run through our endpoint and through FastAPI's default path; and the bytes of our body.

    Both through an ASGI transport: what is compared is the server's work, not sockets. A first request is behind each.
    """
    plain = FastAPI()

    @plain.post("/default")
    def default(body: DefaultBody) -> dict[str, float | None]:
        return ours(body.qrels, body.run)

    service = create_app(Settings(warm_up=False, max_retrieval_body_bytes=1_000_000_000))
    measures = [str(measure) for measure in MEASURES]
    own_body = msgspec.json.encode(
        {"qrels": qrels, "runs": [{"name": "run", "results": run}], "measures": measures, "resamples": 0}
    )
    default_body = msgspec.json.encode({"qrels": qrels, "run": run})
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        for app in (service, plain):
            runner.run(stack.enter_async_context(app.router.lifespan_context(app)))
        ways: list[Callable[[], None]] = [
            lambda: runner.run(post(service, "/v1/retrieval/evaluations", own_body)),
            lambda: runner.run(post(plain, "/default", default_body)),
        ]
        for way in ways:
            way()
        yield ways[0], ways[1], len(own_body)
        runner.run(stack.aclose())


async def post(app: FastAPI, path: str, body: bytes) -> None:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=ORIGIN) as client:
        response = await client.post(path, content=body, headers={"content-type": "application/json"})
        assert response.status_code == 200, response.text[:300]


def cpu_seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = cpu_seconds_of(os.getpid())
    work()
    return cpu_seconds_of(os.getpid()) - started


def race(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            taken[name].append(cpu_seconds(work))
    return {name: statistics.median(times) for name, times in taken.items()}


def ranx_way(qrels: Grades, run: Scores) -> Callable[[], object]:
    import ranx  # noqa: PLC0415 - an oracle that need not be installed

    built = ranx.Qrels(qrels), ranx.Run(run)
    ranx.evaluate(*built, RANX)
    return lambda: ranx.evaluate(*built, RANX)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=6_980)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", default="", help="comma-separated: ranx, text, http")
    options = parser.parse_args()
    skipped = set(options.without.split(","))
    qrels, run = make(options.queries, options.documents)
    seconds: dict[str, float] = {}
    ratios: dict[str, float] = {}
    sizes: dict[str, Any] = {"queries": options.queries, "documents": options.documents}

    ways: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(qrels, run),
        "pytrec_eval": lambda: pytrec(qrels, run),
    }
    if "ranx" not in skipped:
        ways["ranx (built, compiled)"] = ranx_way(qrels, run)
    measured = race(ways, options.rounds)
    seconds |= {f"measures: {name}": value for name, value in measured.items()}
    ratios |= {f"measures, {name}": value / measured["ours"] for name, value in measured.items() if name != "ours"}

    if "text" not in skipped:
        with tempfile.TemporaryDirectory() as folder:
            files = write_trec(qrels, run, Path(folder))
            sizes["run_text_mb"] = round(files[1].stat().st_size / 1e6)
            measured = race(
                {
                    "ours": lambda: ours_from_text(*files),
                    "pytrec_eval": lambda: pytrec_from_text(*files),
                },
                options.rounds,
            )
        seconds |= {f"text: {name}": value for name, value in measured.items()}
        ratios["text, pytrec_eval"] = measured["pytrec_eval"] / measured["ours"]

    if "http" not in skipped:
        with http_paths(qrels, run) as (own, default, size):
            sizes["body_mb"] = round(size / 1e6)
            measured = race({"ours": own, "FastAPI default": default}, options.rounds)
        seconds |= {f"http: {name}": value for name, value in measured.items()}
        ratios["http, FastAPI default"] = measured["FastAPI default"] / measured["ours"]

    for name, value in seconds.items():
        print(f"{name:32} {value:8.3f} CPU s")
    rounded = {name: round(value, 2) for name, value in ratios.items()}
    print(json.dumps({"sizes": sizes, "seconds": {k: round(v, 3) for k, v in seconds.items()}, "ratios": rounded}))


if __name__ == "__main__":
    main()
