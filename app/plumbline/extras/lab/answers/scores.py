"""Answers judged by a running service, and what it says of them on average."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from plumbline.client import Plumbline
from plumbline.extras.lab.answers.asking import Question
from plumbline.extras.lab.answers.kept_lines import KeptLines
from plumbline.extras.lab.experiment import Answers
from plumbline.extras.lab.folder import digest_of

_MEANS: Final = ("faithfulness", "hallucination_rate", "context_utilization")


def scored(
    wanted: Sequence[Question],
    answer_by_query: Mapping[str, str],
    answers: Answers,
    kept: KeptLines,
    tell: Callable[[int, int], None],
) -> dict[str, float | None]:
    """Means of what the service says, each over the answers that have the score, and counts.

    `questions` asked, `answered` by the endpoint, `judged`: answers with a faithfulness; the service's own counts.

    Raises:
        ClientError: the service cannot be reached, or refuses all; what it judged before is kept.
    """
    samples = [_sample(each, answer_by_query[each.query_id]) for each in wanted if each.query_id in answer_by_query]
    known = {line["digest"]: line for line in kept.lines() if line.get("problem") is None}
    left = [each for each in samples if each["custom_id"] not in known]
    tell(len(samples) - len(left), len(samples))
    options = {"tiers": list(answers.tiers)} if answers.tiers else None
    with Plumbline(answers.service) as client:
        rows = client.evaluate_many(iter(left), options=options) if left else iter(())
        for count, row in enumerate(rows, start=len(samples) - len(left) + 1):
            line = _line(row.sample["custom_id"], row.raw, has_result=row.result_json is not None)
            kept.add(line)
            known[line["digest"]] = line
            tell(count, len(samples))
    lines = [known[each["custom_id"]] for each in samples if each["custom_id"] in known]
    return {
        **{name: _mean(line.get(name) for line in lines) for name in _MEANS},
        "questions": float(len(wanted)),
        "answered": float(len(samples)),
        "judged": float(sum(line.get("faithfulness") is not None for line in lines)),
    }


def _sample(question: Question, answer: str) -> dict[str, Any]:
    sample = {"question": question.text, "contexts": list(question.contexts), "answer": answer}
    return {**sample, "custom_id": digest_of([question.query_id, sample])}


def _line(digest: str, said: Mapping[str, Any], *, has_result: bool) -> dict[str, Any]:
    if not has_result:
        return {"digest": digest, "problem": said.get("title", "no result")}
    return {"digest": digest, "status": said.get("status"), **{name: said.get(name) for name in _MEANS}}


def _mean(values: Iterator[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None
