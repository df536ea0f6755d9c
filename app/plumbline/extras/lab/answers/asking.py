"""A user's endpoint, asked to answer from what was retrieved: POST {question, contexts} gives {answer}."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import msgspec

from plumbline.extras.lab.answers.kept_lines import KeptLines
from plumbline.extras.lab.chunkings import AnyChunking
from plumbline.extras.lab.corpus import Corpus
from plumbline.extras.lab.experiment import Answers, Planned
from plumbline.extras.lab.folder import ResultsFolder, digest_of
from plumbline.extras.lab.run_files import best_first, load_run
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.run import Run

_MOST_BYTES: Final = 1_000_000
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Question:
    """A query with the contexts that a system found for it, best first. `digest` tells it from another."""

    query_id: str
    text: str
    contexts: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Of the text and the contexts."""
        return digest_of([self.text, self.contexts])


def questions(
    planned: Planned, folder: ResultsFolder, *, corpus: Corpus, chunking: AnyChunking, k: int
) -> Iterator[Question]:
    """What is asked for a system: the best chunk of each of the first k documents, by query.

    A blend takes the chunk that the first of its parts found for the document.
    """
    run = load_run(folder.run(planned.name), name=planned.name)
    chunk_runs = [
        load_run(folder.chunk_run(each), name=each)
        for each in (planned.part_names or (planned.name,))
        if folder.chunk_run(each).exists()
    ]
    cut, documents = chunking.prepare(), {document.id: document for document in corpus.documents}
    for query in corpus.queries:
        results = run.results.get(query.id)
        if not isinstance(results, Mapping):
            continue
        ids = [found for found, _ in best_first(results, k)]
        texts = {each: {chunk.id: chunk.text for chunk in cut(documents[each])} for each in ids}
        best = [_best_of(texts[each], chunk_runs, query.id) for each in ids]
        yield Question(query.id, query.text, tuple(best))


def _best_of(text_by_chunk: Mapping[str, str], chunk_runs: Sequence[Run], query_id: str) -> str:
    for run in chunk_runs:
        found = run.results.get(query_id, {})
        for chunk_id, text in text_by_chunk.items():
            if chunk_id in found:
                return text
    return next(iter(text_by_chunk.values()))


def answered(
    wanted: Sequence[Question], answers: Answers, kept: KeptLines, tell: Callable[[int, int], None]
) -> dict[str, str]:
    """The answers by query id; a question that failed has none. What was answered before is not asked again.

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
    left: Sequence[Question], answers: Answers, kept: KeptLines, tell: Callable[[int, int], None], total: int
) -> dict[str, str]:
    found: dict[str, str] = {}
    async with httpx2.AsyncClient(timeout=answers.timeout_seconds, headers=_headers(answers)) as client:

        async def ask(question: Question) -> tuple[Question, str | None, str | None]:
            try:
                return question, await _answer(client, answers.url, question), None
            except (httpx2.HTTPError, httpx2.InvalidURL, msgspec.MsgspecError, ValueError, TimeoutError) as error:
                return question, None, f"{type(error).__name__}: {' '.join(str(error).split())}"[:_SHOWN]

        async with aclosing(map_concurrently(ask, left, limit=answers.in_flight)) as done:
            count = total - len(left)
            async for question, answer, error in done:
                count += 1
                line = {"query_id": question.query_id, "digest": question.digest, "answer": answer, "error": error}
                kept.add(line)
                tell(count, total)
                if answer is not None:
                    found[question.query_id] = answer
    return found


async def _answer(client: httpx2.AsyncClient, url: str, question: Question) -> str:
    body = {"question": question.text, "contexts": list(question.contexts)}
    # The client's own limit is for each byte; this one is for the answer
    async with asyncio.timeout(client.timeout.read), client.stream("POST", url, json=body) as response:
        response.raise_for_status()
        data = bytearray()
        async for block in response.aiter_bytes():
            data += block
            if len(data) > _MOST_BYTES:
                raise ValueError(f"the answer has more than {_MOST_BYTES} bytes")
    said: Any = msgspec.json.decode(bytes(data))
    answer = said.get("answer") if isinstance(said, dict) else None
    if not isinstance(answer, str):
        raise ValueError('expected a JSON object with a text "answer"')
    return answer


def _headers(answers: Answers) -> dict[str, str]:
    if answers.key_variable is None:
        return {}
    key = os.environ.get(answers.key_variable, "")
    if not key:
        raise InvalidInput(f"the environment variable {answers.key_variable} is not set", place="answers.key_variable")
    return {"authorization": f"Bearer {key}"}
