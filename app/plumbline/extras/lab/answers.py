"""Ask a user's endpoint to answer from retrieved contexts, and have a running service score the answers."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2
import msgspec

from plumbline.client import Plumbline
from plumbline.extras.lab.chunkings import AnyChunking
from plumbline.extras.lab.corpora.rows import Columns, find_files, read_texts
from plumbline.extras.lab.corpus import Corpus
from plumbline.extras.lab.experiment import Answers, Experiment, Planned, ProgressReporter
from plumbline.extras.lab.folder import ResultsFolder, best_first, json_digest, load_run
from plumbline.extras.lab.results import ANSWER_COUNTS
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import InvalidInput, PlumblineError
from plumbline.rows.records.data_file import drop_torn_line

_MOST_ANSWER_BYTES: Final = 1_000_000
_SHOWN: Final = 200
_MEANS: Final = ("context_utilization", "token_f1", "exact_match")
_KEPT: Final = ("status", "tier", "faithfulness", "hallucination_rate", "passed", *_MEANS)
_TIER_MEANS: Final = ("faithfulness", "hallucination_rate")
_TIERS: Final = ("llm", "detector", "embedding", "lexical")


class KeptLines:
    """Append-only JSON Lines file that survives a kill: a truncated last line is dropped. A context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch()
            # Unbuffered: a line is the operating system's as soon as it is written
            self._file = path.open("r+b", buffering=0)
            drop_torn_line(self._file)
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines, oldest first; InvalidInput for one that is no JSON object."""
        decoder = msgspec.json.Decoder(dict[str, Any])
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield decoder.decode(line)
                except msgspec.MsgspecError:
                    place = f"{self._path.name}:{number}"
                    raise InvalidInput("is no JSON; was the file edited?", place=place) from None

    def add(self, line: dict[str, Any]) -> None:
        data = memoryview(msgspec.json.encode(line) + b"\n")
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self._path.name) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class EndpointQuestion:
    """A query with the contexts that a system found for it, best first, and the correct answer if there is one."""

    query_id: str
    text: str
    contexts: tuple[str, ...]
    reference: str | None = None

    @property
    def digest(self) -> str:
        return json_digest([self.text, self.contexts])


def build_questions(
    planned: Planned,
    folder: ResultsFolder,
    *,
    corpus: Corpus,
    chunking: AnyChunking,
    k: int,
    references: Mapping[str, str],
) -> Iterator[EndpointQuestion]:
    """Yield the question of each query, with the best chunk of each of the first k documents.

    A blend takes the chunk that the first of its parts found for the document.
    """
    results_by_query = load_run(folder.run(planned.name), name=planned.name).results
    chunk_runs = [
        load_run(folder.chunk_run(each), name=each)
        for each in (planned.part_names or (planned.name,))
        if folder.chunk_run(each).exists()
    ]
    cut, documents = chunking.prepare(), {document.id: document for document in corpus.documents}
    for query in corpus.queries:
        results = results_by_query.get(query.id)
        if not isinstance(results, Mapping):
            continue
        contexts = []
        for document_id, _ in best_first(results, k):
            texts = {chunk.id: chunk.text for chunk in cut(documents[document_id])}
            found = (each for run in chunk_runs for each in texts if each in run.results.get(query.id, ()))
            contexts.append(texts[next(found, next(iter(texts)))])
        yield EndpointQuestion(query.id, query.text, tuple(contexts), references.get(query.id))


def ask_endpoint(
    wanted: Sequence[EndpointQuestion], answers: Answers, kept: KeptLines, tell: Callable[[int, int], None]
) -> dict[str, str]:
    """Return the answers by query id; a failed question has none. Questions answered before are not repeated.

    Raises:
        InvalidInput: no question was answered, the variable with the endpoint's key is not set, or the disk is full.
    """
    digests = {each.query_id: each.digest for each in wanted}
    known = {
        line["query_id"]: line["answer"]
        for line in kept.lines()
        if line["answer"] is not None and line["digest"] == digests.get(line["query_id"])
    }
    left = [each for each in wanted if each.query_id not in known]
    tell(len(wanted) - len(left), len(wanted))
    found = {**known, **asyncio.run(_asked(left, answers, kept, tell, len(wanted)))}
    if wanted and not found:
        said = next((line["error"] for line in reversed(list(kept.lines()))), None)
        raise InvalidInput(f"none of {len(wanted)} questions was answered; the last: {said}", place="answers.url")
    return found


async def _asked(
    left: Sequence[EndpointQuestion], answers: Answers, kept: KeptLines, tell: Callable[[int, int], None], total: int
) -> dict[str, str]:
    found: dict[str, str] = {}
    headers = {}
    if answers.key_variable is not None:
        key = os.environ.get(answers.key_variable, "")
        if not key:
            detail = f"the environment variable {answers.key_variable} is not set"
            raise InvalidInput(detail, place="answers.key_variable")
        headers["authorization"] = f"Bearer {key}"
    async with httpx2.AsyncClient(timeout=answers.timeout_seconds, headers=headers) as client:

        async def ask(question: EndpointQuestion) -> tuple[EndpointQuestion, str | None, str | None]:
            try:
                return question, await _answer(client, answers.url, question), None
            except (httpx2.HTTPError, httpx2.InvalidURL, msgspec.MsgspecError, ValueError, TimeoutError) as error:
                return question, None, f"{type(error).__name__}: {' '.join(str(error).split())}"[:_SHOWN]

        async with aclosing(map_concurrently(ask, left, limit=answers.in_flight)) as done:
            count = total - len(left)
            async for question, answer, error in done:
                count += 1
                kept.add({"query_id": question.query_id, "digest": question.digest, "answer": answer, "error": error})
                tell(count, total)
                if answer is not None:
                    found[question.query_id] = answer
    return found


async def _answer(client: httpx2.AsyncClient, url: str, question: EndpointQuestion) -> str:
    body = {"question": question.text, "contexts": list(question.contexts)}
    # The client's own timeout is for each read; this one is for the whole answer
    async with asyncio.timeout(client.timeout.read), client.stream("POST", url, json=body) as response:
        response.raise_for_status()
        data = bytearray()
        async for block in response.aiter_bytes():
            data += block
            if len(data) > _MOST_ANSWER_BYTES:
                raise ValueError(f"the answer has more than {_MOST_ANSWER_BYTES} bytes")
    said: Any = msgspec.json.decode(bytes(data))
    answer = said.get("answer") if isinstance(said, dict) else None
    if not isinstance(answer, str):
        raise ValueError('expected a JSON object with a text "answer"')
    return answer


def score_answers(
    wanted: Sequence[EndpointQuestion],
    answer_by_query: Mapping[str, str],
    answers: Answers,
    kept: KeptLines,
    tell: Callable[[int, int], None],
) -> dict[str, float | None]:
    """Return the means of the service's scores and the counts behind them.

    `faithfulness.TIER`, `hallucination_rate.TIER` and `passed.TIER` (a share) are over the answers that this tier
    judged: scores of different tiers are not comparable. `context_utilization`, `token_f1` and `exact_match` are over
    all that have them (those with a reference). Then the
    `questions`, those `answered` by the endpoint, answers by the service's status, and how many were `degraded`: judged
    by a lower tier than the first that was asked.

    Raises:
        ClientError: the service cannot be reached, or refuses all; what it judged before is kept.
    """
    samples: list[dict[str, Any]] = []
    for each in wanted:
        if (answer := answer_by_query.get(each.query_id)) is not None:
            sample = {"question": each.text, "contexts": list(each.contexts), "answer": answer}
            if each.reference is not None:
                sample["reference"] = each.reference
            samples.append({**sample, "custom_id": json_digest([each.query_id, sample])})
    # A line without tier was written by an earlier version
    known = {line["digest"]: line for line in kept.lines() if "tier" in line}
    left = [each for each in samples if each["custom_id"] not in known]
    tell(len(samples) - len(left), len(samples))
    options = {"tiers": list(answers.tiers)} if answers.tiers else None
    with Plumbline(answers.service) as client:
        rows = client.evaluate_many(iter(left), options=options) if left else iter(())
        for count, row in enumerate(rows, start=len(samples) - len(left) + 1):
            line = {"digest": row.sample["custom_id"]}
            if row.result_json is None:
                line["problem"] = row.raw.get("title", "no result")
            else:
                line |= {name: row.raw.get(name) for name in _KEPT} | {"degraded": "degraded" in row.raw["flags"]}
            kept.add(line)
            known[line["digest"]] = line
            tell(count, len(samples))
    lines = [line for each in samples if "tier" in (line := known.get(each["custom_id"], {}))]
    judged = {tier: [line for line in lines if line["status"] == "judged" and line["tier"] == tier] for tier in _TIERS}
    statuses = [line["status"] for line in lines]
    return {
        **{
            f"{name}.{tier}": sum(float(line[name]) for line in those) / len(those)
            for tier, those in judged.items()
            if those
            for name in (*_TIER_MEANS, "passed")
        },
        **{
            name: mean
            for name in _MEANS
            if (mean := _mean([line.get(name) for line in lines])) is not None or name == _MEANS[0]
        },
        "questions": float(len(wanted)),
        "answered": float(len(samples)),
        **{name: float(statuses.count(name)) for name in ANSWER_COUNTS[2:-1]},
        "degraded": float(sum(line["degraded"] for line in lines)),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def _references(answers: Answers, base: Path) -> dict[str, str]:
    if answers.references is None:
        return {}
    rows = read_texts(find_files(answers.references, base), Columns("id", {"reference": "reference"}), None)
    return {query_id: fields["reference"] for _, query_id, fields in rows}


def answer_figures(
    experiment: Experiment,
    folder: ResultsFolder,
    done: Sequence[Planned],
    *,
    read: Callable[[str], Corpus],
    progress: ProgressReporter,
) -> tuple[dict[str, Mapping[str, float | None]], dict[str, str]]:
    """Return the scores of each system's answers, and the reasons of those that failed; empty without [answers].

    Args:
        read: gives a corpus by its name.

    Raises:
        InvalidInput: a corpus or a run cannot be read.
    """
    answers = experiment.answers
    found: dict[str, Mapping[str, float | None]] = {}
    failures: dict[str, str] = {}
    if answers is None:
        return found, failures
    references = _references(answers, experiment.base)
    chosen = [each for each in done if not answers.systems or any(map(each.goes_by, answers.systems))]
    for corpus_name in dict.fromkeys(each.corpus for each in chosen):
        corpus = read(corpus_name)
        for planned in chosen:
            if planned.corpus != corpus_name:
                continue
            name, chunking = planned.name, experiment.chunkings[planned.chunking]
            try:
                questions = list(
                    build_questions(
                        planned, folder, corpus=corpus, chunking=chunking, k=answers.k, references=references
                    )
                )
                with KeptLines(folder.answers(name)) as kept, KeptLines(folder.scores(name)) as scores:
                    answer_by_query = ask_endpoint(questions, answers, kept, partial(progress.stage, name, "answering"))
                    found[name] = score_answers(
                        questions, answer_by_query, answers, scores, partial(progress.stage, name, "scoring")
                    )
            except PlumblineError as error:
                failures[f"{name} (answers)"] = str(error)
                progress.failed(f"{name} (answers)", str(error))
    return found, failures
