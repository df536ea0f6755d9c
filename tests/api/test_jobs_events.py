"""Events of a job: every change of state, progress at a pace, an end, and no more streams than there is room for."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from plumbline.rows.jobs.job import NewJob
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.submission import Upload
from plumbline.service.api.job_events import MAX_EVENT_STREAMS, EventId, JobEvents, Pace
from tests.doubles.memory_store import MemoryStore
from tests.running.edge_app import client_of, read_problem
from tests.running.job_service import (
    JOBS_URL,
    Caller,
    app_with,
    jobs_running,
    judged,
    lines,
    row,
    submitted,
    work,
)

PACE = Pace(look=0.5, progress=1.0, silence=15.0)
Step = Callable[[], Awaitable[Any]]


class Told(NamedTuple):
    """One event."""

    id: str
    status: str
    done: int
    problem: str | None


def read_events(text: str) -> list[Told]:
    """The events of a stream, once its form is proven."""
    first, *blocks = text.split("\n\n")
    assert first == "retry: 3000"
    assert blocks.pop() == ""
    told = []
    for block in blocks:
        if block.startswith(":"):
            continue
        event, place, data = block.split("\n")
        assert event == "event: job"
        job = json.loads(data.removeprefix("data: "))
        counts = job["request_counts"]
        done = counts["completed"] + counts["failed"]
        told.append(Told(place.removeprefix("id: "), job["status"], done, job["problem"]))
    return told


class Script:
    """A clock that the stream's own waiting moves, and what happens to the job while it waits."""

    def __init__(self, *steps: Step) -> None:
        self.now = 1_000.0
        self._steps = list(steps)

    async def pause(self, seconds: float) -> bool:
        self.now += seconds
        if not self._steps:
            return True
        await self._steps.pop(0)()
        return False


async def nothing() -> None:
    """Nothing happens."""


async def new_job(store: JobStore, *names: str) -> str:
    path = store.new_upload()
    path.write_bytes(lines(*(row(name) for name in names)))
    return (await store.submit(NewJob("", b"{}"), Upload(path, "jsonl"))).job.id


async def events_of(store: JobStore, job_id: str, told: EventId | None, script: Script) -> str:
    """The whole stream."""
    job = await store.get("", job_id)
    events = JobEvents(store, job, told, pause=script.pause, pace=PACE, clock=lambda: script.now)
    return "".join([piece.decode() async for piece in events.stream()])


async def test_a_watcher_is_told_the_state_now_then_every_change_until_the_end(store: JobStore) -> None:
    job_id = await new_job(store, "a", "b")

    async def pause() -> None:
        await store.act("", job_id, "pause")

    async def resume_and_work() -> None:
        await store.act("", job_id, "resume")
        await work(store)

    text = await events_of(store, job_id, None, Script(lambda: work(store, rows=[0]), pause, resume_and_work))

    assert [(each.id, each.status) for each in read_events(text)] == [
        ("0.0", "queued"),
        ("1.1", "running"),
        ("2.1", "paused"),
        ("3.2", "queued"),
        ("4.2", "running"),
        ("5.2", "completed"),
    ]


async def test_progress_is_told_once_a_second_at_most(store: JobStore) -> None:
    job_id = await new_job(store, *"abcdefgh")
    await work(store, rows=[0])

    one_row = [partial(work, store, rows=[row]) for row in range(1, 6)]
    text = await events_of(store, job_id, EventId(1, 1), Script(*one_row, nothing, nothing))

    # looks at 0.0 (nothing new), 0.5, 1.0, 1.5, 2.0, 2.5 and two that find nothing new after 3.0
    assert [(each.id, each.done) for each in read_events(text)] == [("1.3", 3), ("1.5", 5), ("1.6", 6)]


async def test_a_silent_job_is_kept_alive(store: JobStore) -> None:
    job_id = await new_job(store, "a")

    text = await events_of(store, job_id, EventId(0, 0), Script(*[nothing] * 75))

    assert text == "retry: 3000\n\n" + ": keep-alive\n\n" * 2


async def test_every_state_behind_the_last_event_is_told(store: JobStore) -> None:
    job_id = await new_job(store, "a", "b")
    await store.act("", job_id, "pause")
    await store.act("", job_id, "resume")
    await work(store)

    from_the_first = read_events(await events_of(store, job_id, EventId(0, 0), Script()))
    from_the_middle = read_events(await events_of(store, job_id, EventId(2, 0), Script()))

    assert [each.status for each in from_the_first] == ["paused", "queued", "running", "completed"]
    assert from_the_middle == from_the_first[2:]


async def test_a_job_that_was_tried_again_after_its_end_is_followed_to_the_next(store: JobStore) -> None:
    job_id = await new_job(store, "a")
    await work(store, scored=lambda each: judged(each, is_degraded=True))
    await store.retry("", job_id, "degraded")

    text = await events_of(store, job_id, EventId(0, 0), Script(lambda: work(store)))

    assert [each.status for each in read_events(text)] == ["running", "completed", "queued", "running", "completed"]


async def test_a_failed_job_says_why(store: JobStore) -> None:
    path = store.new_upload()
    path.write_bytes(b'{"text": "no column of ours"}\n')
    job_id = (await store.submit(NewJob("", b"{}"), Upload(path, "jsonl"))).job.id

    (told,) = read_events(await events_of(store, job_id, None, Script()))

    assert told.status == "failed"
    assert "columns" in (told.problem or "")


async def test_a_store_that_is_away_is_waited_for() -> None:
    store = MemoryStore()
    job_id = await new_job(store, "a")

    async def leave() -> None:
        store.is_broken = True

    async def come_back() -> None:
        store.is_broken = False
        await work(store)

    text = await events_of(store, job_id, None, Script(leave, *[nothing] * 40, come_back))

    assert ": keep-alive" in text
    assert [each.status for each in read_events(text)] == ["queued", "running", "completed"]


async def test_a_job_that_is_forgotten_ends_its_stream(store: JobStore) -> None:
    job_id = await new_job(store, "a")

    text = await events_of(store, job_id, None, Script(lambda: store.delete("", job_id), nothing))

    assert len(read_events(text)) == 1


# --- the route


async def test_events_are_served_as_a_stream_that_nobody_holds_back(store: JobStore) -> None:
    async with jobs_running(store) as client:
        job_id = await submitted(client, "a")
        await work(store)
        response = await client.get(f"{JOBS_URL}/{job_id}/events")

    assert response.headers["content-type"].startswith("text/event-stream")
    assert (response.headers["x-accel-buffering"], response.headers["cache-control"]) == ("no", "no-store")
    assert [each.status for each in read_events(response.text)] == ["completed"]


async def test_a_client_that_was_told_the_end_is_told_not_to_come_back(store: JobStore) -> None:
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, 'a')}/events"
        await work(store)
        (last,) = read_events((await client.get(path)).text)
        again = await client.get(path, headers={"Last-Event-ID": last.id})
        before = await client.get(path, headers={"Last-Event-ID": "0.0"})

    assert (again.status_code, again.content) == (204, b"")
    assert [each.status for each in read_events(before.text)] == ["running", "completed"]


@pytest.mark.parametrize("sent", ["", "3", "3.", ".1", "-1.0", "1.0.0", "a.b", "1" * 400 + ".0", "٣.0", "9.0"])
async def test_a_last_event_of_nobody_is_refused(store: JobStore, sent: str) -> None:
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, 'a')}/events"
        response = await client.get(path, headers=[(b"last-event-id", sent.encode())])

    assert "Last-Event-ID" in read_problem(response, 422).detail


async def test_there_is_room_for_so_many_streams_and_leaving_makes_room(store: JobStore) -> None:
    app = app_with(store)
    async with app.router.lifespan_context(app), client_of(app) as client:
        path = f"{JOBS_URL}/{await submitted(client, 'a')}/events"
        watchers = [Caller(app, path) for _ in range(MAX_EVENT_STREAMS)]
        for each in watchers:
            await each.begun.wait()

        refused = await client.get(path)
        await watchers[0].leave()
        last = Caller(app, path)
        await last.begun.wait()
        for each in [*watchers[1:], last]:
            await each.leave()

    problem = read_problem(refused, 503)
    assert problem.type == "urn:plumbline:problem:too-busy"
    assert int(refused.headers["retry-after"]) > 0
    assert [each.status for each in [*watchers, last]] == [200] * (MAX_EVENT_STREAMS + 1)


async def test_streams_end_when_the_service_shuts_down(store: JobStore) -> None:
    app = app_with(store)
    async with app.router.lifespan_context(app), client_of(app) as client:
        watcher = Caller(app, f"{JOBS_URL}/{await submitted(client, 'a')}/events")
        await watcher.begun.wait()

        app.state.event_streams.stopping.set()
        await watcher.task

    assert watcher.is_complete
