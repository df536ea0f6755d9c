"""Many samples through the client: each answered once, whatever happens on the way."""

import asyncio
import itertools
import json
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any

import pyarrow
import pytest

from plumbline.client import (
    AccessRefused,
    AnswerUnreadable,
    AsyncPlumbline,
    Busy,
    Plumbline,
    RequestRefused,
    Retries,
    Row,
)
from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.record import Record
from plumbline.schemas.batch import BatchSample
from tests.doubles.scripted_service import (
    NDJSON,
    Answer,
    Asked,
    ScriptedService,
    batch_answer,
    in_turn,
    problem,
    result_of,
    row_line,
    scripted,
)
from tests.making.cases import load_cases

AT_ONCE = Retries(attempts=3, backoff_seconds=0.0)


@pytest.fixture
async def service() -> AsyncIterator[ScriptedService]:
    async with ScriptedService(batch_answer) as service:
        yield service


def sample(number: int, **fields: Any) -> dict[str, Any]:
    return {"custom_id": f"q{number}", "contexts": ["It is so."], "answer": f"a{number}", **fields}


def samples(count: int) -> list[dict[str, Any]]:
    return [sample(number) for number in range(count)]


async def rows_of(client: AsyncPlumbline, given: Any, **choices: Any) -> list[Row[Any]]:
    return [row async for row in client.evaluate_many(given, **choices)]


def assert_each_once(rows: list[Row[Any]], given: list[dict[str, Any]]) -> None:
    """Each sample has one row, with the result of its own answer."""
    assert sorted(row.index for row in rows) == list(range(len(given)))
    assert all(row.sample is given[row.index] for row in rows)
    assert all(row.result is not None and row.result.id == row.sample["answer"] for row in rows)
    assert all(row.custom_id == row.sample["custom_id"] for row in rows)


def sent_by(service: ScriptedService) -> list[list[str]]:
    return [[each["custom_id"] for each in asked.json["samples"]] for asked in service.asked]


@pytest.mark.parametrize("in_order", [True, False])
async def test_each_sample_has_its_row(service: ScriptedService, client: AsyncPlumbline, in_order: bool) -> None:
    given = samples(50)

    rows = await rows_of(client, given, options={"tiers": ["lexical"]}, in_flight=20, batch_size=5, in_order=in_order)

    assert_each_once(rows, given)
    # The scripted service answers the last sample of a request first.
    assert ([row.index for row in rows] == list(range(50))) is in_order
    assert service.most <= 4
    assert all(len(asked.json["samples"]) <= 5 for asked in service.asked)
    assert all(asked.json["options"] == {"tiers": ["lexical"]} for asked in service.asked)
    assert all(asked.json["format"] == "ndjson" for asked in service.asked)


def test_a_frame_is_evaluated_and_comes_back_as_one() -> None:
    table = pyarrow.table({"id": ["x", "y"], "contexts": [["c"], ["c"]], "answer": ["a0", None]})

    with scripted(batch_answer) as service, Plumbline(service.url, retries=AT_ONCE) as client:
        frame = client.evaluate_many(table).to_frame("pyarrow")

    assert frame.column("custom_id").to_pylist() == ["x", "y"]
    assert frame.column("status").to_pylist() == ["judged", None]
    assert frame.column("error").to_pylist() == [None, "answer is null; expected a string, the answer"]


async def test_samples_come_in_many_forms(service: ScriptedService, client: AsyncPlumbline) -> None:
    inner = Sample("", ("c",), "a2", reference="r")
    given = [
        sample(0),
        BatchSample(custom_id="q1", contexts=["c"], answer="a1"),
        inner,
        Record(7, "seven", inner, {"colour": "red"}),
    ]

    rows = await rows_of(client, given, in_order=True)

    assert [row.custom_id for row in rows] == ["q0", "q1", None, "seven"]
    assert [row.sample for row in rows] == given
    assert service.asked[0].json["samples"][1:] == [
        {"custom_id": "q1", "contexts": ["c"], "answer": "a1"},
        {"question": "", "contexts": ["c"], "answer": "a2", "reference": "r"},
        {"custom_id": "seven", "question": "", "contexts": ["c"], "answer": "a2", "reference": "r"},
    ]


async def test_an_async_iterable_is_fine_and_so_is_none_at_all(client: AsyncPlumbline) -> None:
    given = samples(7)

    async def come() -> AsyncIterator[dict[str, Any]]:
        for each in given:
            yield each

    assert_each_once(await rows_of(client, come(), batch_size=3), given)
    assert await rows_of(client, []) == []


@pytest.mark.parametrize("in_order", [True, False])
async def test_an_endless_iterable_is_read_as_rows_are_taken(client: AsyncPlumbline, in_order: bool) -> None:
    drawn = itertools.count()
    rows = client.evaluate_many((sample(next(drawn)) for _ in itertools.repeat(0)), in_flight=12, in_order=in_order)

    taken = 0
    async with aclosing(rows):
        async for _ in rows:
            taken += 1
            ahead = next(drawn) - taken
            drawn = itertools.count(taken + ahead)
            assert ahead <= 2 * 12
            if taken == 600:
                break


def counted(drawn: list[int]) -> Iterator[dict[str, Any]]:
    """Endless samples; `drawn` has those that were read."""
    for number in itertools.count():
        drawn.append(number)
        yield sample(number)


async def quiet(drawn: list[int]) -> int:
    """How many were read, when no more were for a twentieth of a second, or far too many."""
    before = -1
    while before < len(drawn) < 1_000:
        before = len(drawn)
        await asyncio.sleep(0.05)
    return len(drawn)


@pytest.mark.parametrize("in_order", [True, False])
async def test_nothing_is_read_ahead_of_a_reader_who_waits(client: AsyncPlumbline, in_order: bool) -> None:
    drawn: list[int] = []

    async with aclosing(client.evaluate_many(counted(drawn), in_flight=12, batch_size=4, in_order=in_order)) as rows:
        await anext(rows)

        assert await quiet(drawn) <= 12 + 4


async def test_rows_of_a_cut_request_are_sent_again_and_the_others_not(
    service: ScriptedService, client: AsyncPlumbline
) -> None:
    given = samples(6)
    service.script = in_turn(lambda asked: batch_answer(asked, only=2), problem(503), batch_answer)

    rows = await rows_of(client, given)

    assert_each_once(rows, given)
    assert sent_by(service) == [[f"q{n}" for n in range(6)], ["q0", "q1", "q2", "q3"], ["q0", "q1", "q2", "q3"]]


async def test_an_answer_without_its_summary_was_cut(service: ScriptedService, client: AsyncPlumbline) -> None:
    given = samples(3)
    orderly = Answer([row_line(1, given[1])], media_type=NDJSON)
    service.script = in_turn(orderly, batch_answer)

    assert_each_once(await rows_of(client, given), given)
    assert sent_by(service)[1] == ["q0", "q2"]


async def test_patience_is_renewed_by_each_row(service: ScriptedService, client: AsyncPlumbline) -> None:
    given = samples(8)
    service.script = lambda asked: batch_answer(asked, only=1)

    # more cuts than attempts, each with a row before it
    assert_each_once(await rows_of(client, given), given)
    assert len(service.asked) == len(given)


async def test_a_service_that_stays_busy_ends_it_behind_the_rows_that_are_there(
    service: ScriptedService, client: AsyncPlumbline
) -> None:
    service.script = in_turn(batch_answer, problem(429, headers={"retry-after": "0"}))
    rows = client.evaluate_many(samples(6), in_flight=3, batch_size=3)

    assert sorted([(await anext(rows)).index for _ in range(3)]) == [0, 1, 2]
    with pytest.raises(Busy):
        await anext(rows)
    assert len(service.asked) == 1 + AT_ONCE.attempts


async def test_a_bad_row_is_its_own_problem(service: ScriptedService, client: AsyncPlumbline) -> None:
    def script(asked: Asked) -> Answer:
        given = asked.json["samples"]
        wrong = {"pointer": "/samples/1/answer", "detail": "Field required"}
        error = {"type": "urn:x", "title": "t", "status": 422, "detail": "d", "errors": [wrong]}
        bad = json.dumps({"custom_id": None, "index": 1, "error": error}).encode() + b"\n"
        return Answer([row_line(0, given[0]), bad, row_line(2, given[2]), b'{"summary":{}}\n'], media_type=NDJSON)

    service.script = script
    rows = await rows_of(client, samples(3), in_order=True)

    assert [row.problem is None for row in rows] == [True, False, True]
    assert rows[1].problem is not None
    assert rows[1].result is None
    assert rows[1].custom_id == "q1"
    assert [each.pointer for each in rows[1].problem.errors] == ["/answer"]


@pytest.mark.parametrize(
    "bad",
    [
        {"contexts": [], "answer": "\ud800"},
        {"contexts": [], "answer": object()},
        {"contexts": [], "answer": {1.5j: "x"}},
    ],
)
async def test_a_sample_that_cannot_be_written_is_its_own_problem(client: AsyncPlumbline, bad: dict[str, Any]) -> None:
    rows = await rows_of(client, [sample(0), bad, sample(2)], in_order=True)

    assert rows[1].problem is not None
    assert rows[1].problem.status == 422
    assert [row.result.id for row in rows if row.result] == ["a0", "a2"]


@pytest.mark.parametrize(
    "refusal",
    [
        problem(413, "body-too-large"),
        problem(400, "malformed-body"),
        problem(422, "validation", errors=[{"pointer": "/samples", "detail": "at most 2"}]),
    ],
)
async def test_what_is_refused_for_one_samples_sake_costs_no_other(
    service: ScriptedService, client: AsyncPlumbline, refusal: Answer
) -> None:
    given = samples(9)
    service.script = lambda asked: refusal if b"q5" in asked.body else batch_answer(asked)

    rows = await rows_of(client, given, in_order=True)

    assert [row.index for row in rows] == list(range(9))
    assert [row.index for row in rows if row.problem is not None] == [5]
    assert sorted(name for sent in sent_by(service) if "q5" not in sent for name in sent) == sorted(
        f"q{n}" for n in range(9) if n != 5
    )


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (problem(401, "key-missing"), AccessRefused),
        (problem(422, "validation", errors=[{"pointer": "/options/judges/0", "detail": "no such"}]), RequestRefused),
        (problem(422, "invalid-input"), RequestRefused),
        (Answer([b"no"], 400, "text/plain"), RequestRefused),
    ],
)
async def test_what_is_refused_whole_ends_it(
    service: ScriptedService, client: AsyncPlumbline, refusal: Answer, kind: type[Exception]
) -> None:
    service.script = in_turn(refusal)

    with pytest.raises(kind):
        await rows_of(client, samples(5))

    assert len(service.asked) == 1


@pytest.mark.parametrize("line", [*(each.encode() for each in load_cases("client_many", "garbage")), b"\xff"])
async def test_garbage_in_the_answer_is_told(service: ScriptedService, client: AsyncPlumbline, line: bytes) -> None:
    service.script = in_turn(Answer([line + b"\n"], media_type=NDJSON))

    with pytest.raises(AnswerUnreadable):
        await rows_of(client, samples(2))


async def test_pieces_need_not_be_lines(service: ScriptedService, client: AsyncPlumbline) -> None:
    def script(asked: Asked) -> Answer:
        whole = b"".join(batch_answer(asked).pieces).replace(b"\n", b"\r\n\n")
        return Answer([whole[at : at + 7] for at in range(0, len(whole), 7)], media_type=NDJSON)

    service.script = script
    given = samples(3)

    assert_each_once(await rows_of(client, given), given)


async def test_closing_early_ends_what_is_under_way(service: ScriptedService, client: AsyncPlumbline) -> None:
    def script(asked: Asked) -> Answer:
        return Answer([row_line(0, asked.json["samples"][0])], media_type=NDJSON, is_held=True)

    service.script = script
    rows = client.evaluate_many(samples(8), in_flight=4, batch_size=2)
    await anext(rows)
    await rows.aclose()

    await service.until(lambda: service.in_flight == 0)
    assert service.left == len(service.asked) <= 2


async def test_an_error_of_the_iterable_is_the_callers(client: AsyncPlumbline) -> None:
    def come() -> Iterator[dict[str, Any]]:
        yield sample(0)
        raise ZeroDivisionError("of the caller")

    with pytest.raises(ZeroDivisionError, match="of the caller"):
        await rows_of(client, come())


@pytest.mark.parametrize("choices", [{"in_flight": 0}, {"batch_size": 0}, {"options": {"tiers": []}}])
def test_choices_that_cannot_be_are_refused_at_once(choices: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        AsyncPlumbline("http://127.0.0.1").evaluate_many([], **choices)
    with Plumbline("http://127.0.0.1") as client, pytest.raises(InvalidInput):
        client.evaluate_many([], **choices)


@pytest.mark.parametrize("in_order", [True, False])
def test_without_asyncio_each_sample_has_its_row_too(in_order: bool) -> None:
    given = samples(100)
    cut = in_turn(lambda asked: batch_answer(asked, only=3), batch_answer)

    with scripted(cut) as service, Plumbline(service.url, retries=AT_ONCE) as client:
        rows = list(client.evaluate_many(iter(given), in_flight=30, batch_size=10, in_order=in_order))

    assert_each_once(rows, given)
    assert not in_order or [row.index for row in rows] == list(range(100))


def test_without_asyncio_samples_are_read_on_the_callers_thread_as_rows_are_taken() -> None:
    threads, drawn = set(), []

    def come() -> Iterator[dict[str, Any]]:
        for number in itertools.count():
            threads.add(threading.current_thread())
            drawn.append(number)
            yield sample(number)

    with scripted(batch_answer) as service, Plumbline(service.url) as client:
        rows = client.evaluate_many(come(), in_flight=16, batch_size=4)
        assert drawn == []
        with closing(rows):
            for taken, _ in enumerate(itertools.islice(rows, 400), start=1):
                assert len(drawn) - taken <= 16 + 32 + 2 * 4

    assert threads == {threading.main_thread()}


def test_without_asyncio_closing_early_ends_what_is_under_way() -> None:
    def script(asked: Asked) -> Answer:
        return Answer([row_line(0, asked.json["samples"][0])], media_type=NDJSON, is_held=True)

    with scripted(script) as service, Plumbline(service.url) as client:
        for _ in client.evaluate_many(samples(8), in_flight=4, batch_size=2):
            break
        # Of a client that asked on, the next answer would come from the same connection.
        service.script = in_turn(Answer([json.dumps(result_of("q")).encode()]))
        assert client.evaluate(contexts=[], answer="a").id == "q"

    assert service.left <= 2


def test_without_asyncio_an_interrupt_ends_what_is_under_way() -> None:
    class Interrupt(BaseException): ...

    def interrupt(*_: object) -> None:
        raise Interrupt

    def script(_: Asked) -> Answer:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        return Answer(status=0, is_held=True)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with scripted(script) as service, Plumbline(service.url) as client:
            with pytest.raises(Interrupt):
                list(client.evaluate_many(samples(3)))
            service.script = batch_answer
            assert len(list(client.evaluate_many(samples(3)))) == 3
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_without_asyncio_errors_come_through() -> None:
    def come() -> Iterator[dict[str, Any]]:
        yield from samples(3)
        raise ZeroDivisionError("of the caller")

    with scripted(in_turn(problem(401))) as service, Plumbline(service.url) as client:
        with pytest.raises(AccessRefused):
            list(client.evaluate_many(samples(5)))
        with pytest.raises(ZeroDivisionError):
            list(client.evaluate_many(come()))
