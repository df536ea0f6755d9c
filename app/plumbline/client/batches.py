"""One chunk of samples as requests of POST /v1/evaluations/batch, until each of them has its answer."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, TypeVar

from plumbline.client.connection import Ask, Connection, lines_of
from plumbline.client.failures import AnswerCut, AnswerUnreadable, ClientError, Refused
from plumbline.client.reading import read_model
from plumbline.client.retries import Patience
from plumbline.client.row import Row, WireRow, read_line
from plumbline.client.samples import AnySample, Sent
from plumbline.schemas.problem import RowProblem

S = TypeVar("S", bound=AnySample)

BATCH_PATH: Final = "/v1/evaluations/batch"
_NDJSON: Final = "application/x-ndjson"
_PLACE: Final = re.compile(r"^/samples(?:/[0-9]+)?")
_HEADERS: Final = {"content-type": "application/json", "accept": _NDJSON}
_BAD_BODY, _TOO_LARGE, _INVALID = 400, 413, 422


async def answered(connection: Connection, chunk: list[Sent[S]], options: bytes) -> AsyncGenerator[Row[S], None]:
    """A row for each sample of the chunk, in the order in which they come; none twice.

    Samples without an answer are sent again while the connection's patience lasts, the others are not. What is refused
    for one sample's sake is sent in halves, until that sample alone has the refusal as its problem.

    Raises:
        ClientError: what was in the way of the rest.
    """
    for sent in chunk:
        if sent.body is None and sent.problem is not None:
            yield _without_result(sent, sent.problem)
    to_send = [sent for sent in chunk if sent.body is not None]
    groups = [to_send] if to_send else []
    patience = Patience(connection.retries)
    while groups:
        waiting = dict(enumerate(groups.pop()))
        try:
            async with aclosing(_posted(connection, waiting, options)) as rows:
                async for row in rows:
                    patience.renew()
                    yield row
        except ClientError as failure:
            left = list(waiting.values())
            if not (isinstance(failure, Refused) and _is_for_a_sample(failure)):
                # Where nothing is left, only the end of the answer was missing.
                if left:
                    await patience.sleep_after(failure)
                    groups.append(left)
            elif len(left) > 1:
                groups += _halves(left)
            else:
                yield _without_result(left[0], failure.row_problem)


async def _posted(connection: Connection, waiting: dict[int, Sent[S]], options: bytes) -> AsyncGenerator[Row[S], None]:
    """One request; each sample leaves `waiting` when its row is yielded.

    Raises:
        ClientError: it was refused, or cut.
    """
    samples = b",".join(sent.body or b"" for sent in waiting.values())
    body = b'{"samples":[%b],"options":%b,"format":"ndjson"}' % (samples, options)
    async with connection.stream(Ask("POST", BATCH_PATH, headers=_HEADERS, content=body)) as response:
        if not response.headers.get("content-type", "").startswith(_NDJSON):
            raise AnswerUnreadable("the answer to a batch is not in lines; is base_url that of the service?")
        async with aclosing(lines_of(response)) as lines:
            async for line in lines:
                wire = read_line(line)
                if wire.is_summary:
                    # Read on to the end: a connection is used again only then.
                    continue
                if (sent := waiting.pop(wire.index, None)) is not None:
                    yield _row(wire, sent)
                else:
                    raise AnswerUnreadable("the answer has a row that was not asked for, or one twice")
    if waiting:
        raise AnswerCut(f"the answer to a batch ended without {len(waiting)} of its rows")


def _is_for_a_sample(refusal: Refused) -> bool:
    """Whether one sample, or their number, is the reason, and not the key or the options."""
    if not refusal.is_ours:
        return False
    if refusal.status == _INVALID:
        return bool(refusal.errors) and all(each.pointer.startswith("/samples") for each in refusal.errors)
    return refusal.status in (_BAD_BODY, _TOO_LARGE)


def _halves(sent: list[Sent[S]]) -> list[list[Sent[S]]]:
    """The later one first: groups are taken from the end."""
    middle = len(sent) // 2
    return [sent[middle:], sent[:middle]]


def _row(wire: WireRow, sent: Sent[S]) -> Row[S]:
    """The row under the caller's number and name."""
    if wire.problem_json is not None:
        return _without_result(sent, read_model(RowProblem, wire.problem_json))
    return Row(sent.index, sent.custom_id, sent.sample, wire.result_json)


def _without_result(sent: Sent[S], problem: RowProblem) -> Row[S]:
    # Where it stood in a request is nothing to the caller: pointers lead into the sample.
    errors = [each.model_copy(update={"pointer": _PLACE.sub("", each.pointer)}) for each in problem.errors]
    own = problem.model_copy(update={"errors": errors})
    return Row(sent.index, sent.custom_id, sent.sample, problem_json=own.model_dump_json().encode())
