"""What a store of jobs promises, whichever it is."""

import gzip
import json
import os

import pytest

from plumbline.ground.errors import IdempotencyConflict, JobStateConflict, JobUnknown
from plumbline.rows.jobs.job import Action, JobState, Lease, LeaseStatus, NewJob, RowFilter
from plumbline.rows.jobs.labels import Label
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record, RecordProblem
from tests.making.cases import load_cases
from tests.making.job_rows import TENANT, Handler, ended, lines_of, rows_of, scored, submitted, upload, working
from tests.running.job_stores import Stores

ROWS = 250


async def leased(store: JobStore) -> Lease:
    """A chunk, leased by this process."""
    lease = await store.lease()
    assert lease is not None
    return lease


async def chunk(store: JobStore, lease: Lease, *, is_done: bool = True) -> LeaseStatus:
    """All rows of the chunk, committed."""
    rows = [scored(row.row, "judged") for row, _ in await store.rows(lease)]
    return await store.commit(lease, rows, is_done=is_done)


async def test_a_job_that_was_taken_is_there_for_whoever_opens_the_folder_next(store: JobStore, stores: Stores) -> None:
    job = await submitted(store, rows_of(3), name="nightly", options=b'{"samples": 3}', max_cost=2.5)
    await store.close()

    reopened = stores.open()
    found = await reopened.get(TENANT, job.id)
    await reopened.close()

    assert (found.name, found.options, found.max_cost) == ("nightly", b'{"samples": 3}', 2.5)
    assert (found.state, found.total) == (JobState.QUEUED, 3)


async def test_rows_are_kept_as_they_were_understood_and_handed_out_in_chunks(store: JobStore) -> None:
    await submitted(store, [*rows_of(ROWS - 1), "{torn"])
    leases = [await leased(store) for _ in range(3)]

    rows = [row for lease in leases for row, _ in await store.rows(lease)]

    assert [lease.chunk for lease in leases] == [0, 1, 2]
    assert [row.row for row in rows] == list(range(ROWS))
    assert [row.custom_id for row in rows[:-1]] == [f"q{row}" for row in range(ROWS - 1)]
    assert isinstance(rows[0], Record)
    assert rows[0].sample.contexts == ("c",)
    assert isinstance(rows[-1], RecordProblem)
    assert rows[-1].line == ROWS
    assert await store.lease() is None


@pytest.mark.parametrize("is_done", [False, True], ids=["under way", "done"])
async def test_answers_that_passed_are_counted(store: JobStore, is_done: bool) -> None:
    job = await submitted(store, rows_of(4))
    lease = await leased(store)
    rows = [scored(row, "judged")._replace(passed=passed) for row, passed in enumerate((True, False, True, None))]
    await store.commit(lease, rows, is_done=is_done)

    counts = (await store.get(TENANT, job.id)).counts

    assert (counts.passed, counts.not_passed, counts.done) == (2, 1, 4)


async def test_rows_that_are_committed_are_not_handed_out_again(store: JobStore) -> None:
    job = await submitted(store, rows_of(5))
    lease = await leased(store)
    await store.commit(lease, [scored(1, "judged"), scored(3, "judged")], is_done=False)
    await store.release(lease)

    again = await leased(store)

    assert again.fence > lease.fence
    assert again.owner_crashes == 0
    assert [row.row for row, _ in await store.rows(again)] == [0, 2, 4]
    assert await store.results(TENANT, job.id, after=-1, limit=10) == []


async def test_a_result_is_kept_once_whatever_is_committed_after_it(store: JobStore) -> None:
    job = await submitted(store, rows_of(1))
    lease = await leased(store)
    await store.commit(lease, [scored(0, "judged", text="first")], is_done=False)

    await store.commit(lease, [scored(0, "failed", text="second")], is_done=True)

    [line] = await lines_of(store, job.id)
    done = await store.get(TENANT, job.id)
    assert line["text"] == "first"
    assert done.state is JobState.COMPLETED
    assert done.counts.usage.calls == 1


async def test_results_are_readable_in_order_up_to_the_first_row_that_is_not_done(store: JobStore) -> None:
    job = await submitted(store, rows_of(6))
    lease = await leased(store)
    await store.commit(lease, [scored(row, "judged") for row in (0, 1, 2, 4)], is_done=False)

    readable = await store.results(TENANT, job.id, after=-1, limit=10)
    page = await store.results(TENANT, job.id, after=0, limit=1)

    assert [line.row for line in readable] == [0, 1, 2]
    assert [line.row for line in page] == [1]
    assert await store.results(TENANT, job.id, after=2, limit=10) == []


async def test_an_owner_whose_lease_has_passed_cannot_commit(store: JobStore, stores: Stores) -> None:
    job = await submitted(store, rows_of(2))
    late = await leased(store)
    await stores.aged(store, 3600)
    heir = await leased(store)

    assert (heir.chunk, heir.owner_crashes) == (late.chunk, 1)
    assert await chunk(store, late) is LeaseStatus.LOST
    assert await store.renew(late) is LeaseStatus.LOST
    assert await store.begin(late, [0]) is LeaseStatus.LOST
    await store.release(late)
    assert await store.rows(late) == []
    assert await lines_of(store, job.id) == []
    assert await chunk(store, heir) is LeaseStatus.VALID
    assert len(await lines_of(store, job.id)) == 2


async def test_a_lease_that_is_renewed_is_not_handed_out(store: JobStore, stores: Stores) -> None:
    await submitted(store, rows_of(2))
    lease = await leased(store)
    for _ in range(5):
        await stores.aged(store, 8)
        assert await store.renew(lease) is LeaseStatus.VALID

    await stores.aged(store, 0)
    assert await store.lease() is None


async def test_rows_that_were_under_way_when_their_owner_ended_have_a_strike(store: JobStore, stores: Stores) -> None:
    await submitted(store, rows_of(4))
    await store.release(await leased(store))
    strikes = []
    for _ in range(3):
        lease = await store.lease()
        assert lease is not None
        strikes.append({row.row: count for row, count in await store.rows(lease)})
        await store.begin(lease, [1])
        await store.begin(lease, [2, 3])
        await store.commit(lease, [scored(3, "judged")], is_done=False)
        await stores.aged(store, 11)

    assert strikes == [{0: 0, 1: 0, 2: 0, 3: 0}, {0: 0, 1: 1, 2: 1}, {0: 0, 1: 2, 2: 2}]


async def test_a_chunk_that_is_given_back_blames_nobody(store: JobStore, stores: Stores) -> None:
    await submitted(store, rows_of(2))
    lease = await leased(store)
    await store.begin(lease, [0, 1])
    await store.release(lease)
    await stores.aged(store, 0)

    again = await leased(store)
    assert [strikes for _, strikes in await store.rows(again)] == [0, 0]


async def test_two_jobs_take_turns(store: JobStore) -> None:
    first = await submitted(store, rows_of(ROWS))
    second = await submitted(store, rows_of(ROWS))
    leases = [await leased(store) for _ in range(4)]

    assert [lease.job_id for lease in leases] == [first.id, second.id, first.id, second.id]


async def test_a_file_without_a_single_row_fails_the_job_with_the_reason(store: JobStore) -> None:
    job = await submitted(store, ["{no", "[1]"])
    async with working(store, Handler()):
        failed = await ended(store, job.id)

    assert failed.state is JobState.FAILED
    assert failed.problem is not None
    assert "no good row" in failed.problem


async def test_rows_before_damage_are_scored_and_the_damage_is_told(store: JobStore) -> None:
    rows = [{"custom_id": f"q{row}", "contexts": [os.urandom(100_000).hex()], "answer": "ok"} for row in range(4)]
    path = store.new_upload()
    whole = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    path.write_bytes(whole[: len(whole) // 4 * 3])
    job = (await store.submit(NewJob(TENANT, b"{}"), upload(store, [])._replace(path=path))).job
    async with working(store, Handler()):
        done = await ended(store, job.id)

    assert done.state is JobState.COMPLETED_WITH_ERRORS
    assert done.total in (1, 2)
    assert done.problem is not None
    assert "ends too early" in done.problem


@pytest.mark.parametrize(("actions", "state"), load_cases("job_store", "actions", inner=list))
async def test_actions_lead_to_states_and_may_be_repeated(store: JobStore, actions: list[str], state: str) -> None:
    job = await submitted(store, rows_of(2))
    await store.release(await leased(store))
    for action in actions:
        job = await store.act(TENANT, job.id, action)  # type: ignore[arg-type]

    assert job.state == state
    assert await store.get(TENANT, job.id) == job


@pytest.mark.parametrize("action", ["pause", "resume"])
async def test_an_action_that_the_state_forbids_is_a_conflict(store: JobStore, action: Action) -> None:
    job = await submitted(store, rows_of(2))
    await store.act(TENANT, job.id, "cancel")

    with pytest.raises(JobStateConflict, match="cannot be"):
        await store.act(TENANT, job.id, action)


async def test_what_is_committed_after_a_cancel_is_not_kept(store: JobStore) -> None:
    job = await submitted(store, rows_of(2))
    lease = await leased(store)
    await store.act(TENANT, job.id, "cancel")

    assert await chunk(store, lease) is LeaseStatus.LOST
    assert await lines_of(store, job.id) == []
    assert (await store.get(TENANT, job.id)).state is JobState.CANCELLED


async def test_what_is_committed_after_a_pause_is_kept(store: JobStore) -> None:
    job = await submitted(store, rows_of(2))
    lease = await leased(store)
    await store.act(TENANT, job.id, "pause")

    assert await store.commit(lease, [scored(0, "judged")], is_done=False) is LeaseStatus.PAUSED
    await store.release(lease)
    assert await store.lease() is None
    assert len(await lines_of(store, job.id)) == 1


@pytest.mark.parametrize(("select", "again"), [("failed", [1, 4]), ("degraded", [2])])
async def test_retry_scores_exactly_those_rows_again(store: JobStore, select: str, again: list[int]) -> None:
    rows = rows_of(6, row1="failed", row2="degraded", row4="not_judged", row5="invalid")
    job = await submitted(store, rows)
    handler = Handler()
    async with working(store, handler):
        first = await ended(store, job.id)
        before = await lines_of(store, job.id)
        handler.calls.clear()
        handler.is_degraded = False
        await store.retry(TENANT, job.id, select)  # type: ignore[arg-type]
        second = await ended(store, job.id)

    after = await lines_of(store, job.id)
    assert sorted(handler.calls) == again
    assert [line for line in after if line["row"] not in again] == [line for line in before if line["row"] not in again]
    # what replaced results cost was spent all the same
    assert second.counts.usage.calls == first.counts.usage.calls + len(again)
    assert second.counts.done == 6
    assert second.counts.degraded == (0 if select == "degraded" else 1)


async def test_a_result_stays_readable_until_another_takes_its_place(store: JobStore) -> None:
    job = await submitted(store, rows_of(3, row1="failed"))
    handler = Handler()
    async with working(store, handler):
        await ended(store, job.id)
        handler.gate.clear()
        await store.retry(TENANT, job.id, "failed")
        await ended(store, job.id, state="running")
        assert [line["status"] for line in await lines_of(store, job.id)] == ["judged", "failed", "judged"]


async def test_retry_of_nothing_is_a_conflict(store: JobStore) -> None:
    job = await submitted(store, rows_of(2))
    with pytest.raises(JobStateConflict, match="wait for its end"):
        await store.retry(TENANT, job.id, "failed")
    async with working(store, Handler()):
        await ended(store, job.id)

    with pytest.raises(JobStateConflict, match="no row of the job is degraded"):
        await store.retry(TENANT, job.id, "degraded")


async def test_the_same_key_with_the_same_request_is_the_first_job(store: JobStore) -> None:
    new = NewJob(TENANT, b"{}", idempotency_key="k1", fingerprint="f1")
    first = await store.submit(new, upload(store, rows_of(1)))
    spare = upload(store, rows_of(1))
    again = await store.submit(new, spare)
    other = await store.submit(new._replace(tenant="tenant-2", fingerprint="f2"), upload(store, rows_of(1)))

    assert (first.is_new, again.is_new, other.is_new) == (True, False, True)
    assert again.job.id == first.job.id
    assert not spare.path.exists()
    with pytest.raises(IdempotencyConflict):
        await store.submit(new._replace(fingerprint="f2"), upload(store, rows_of(1)))


async def test_a_job_of_another_tenant_is_as_none(store: JobStore) -> None:
    job = await submitted(store, rows_of(1))
    for call in (
        store.get("tenant-2", job.id),
        store.act("tenant-2", job.id, "cancel"),
        store.retry("tenant-2", job.id, "failed"),
        store.delete("tenant-2", job.id),
        store.results("tenant-2", job.id, after=-1, limit=1),
        store.jobs("tenant-2", before=job.id, limit=5),
    ):
        with pytest.raises(JobUnknown):
            await call
    assert await store.jobs("tenant-2", before=None, limit=5) == []
    assert (await store.get(TENANT, job.id)).state is job.state


async def test_a_job_that_is_deleted_leaves_nothing(store: JobStore) -> None:
    job = await submitted(store, rows_of(ROWS))
    lease = await leased(store)
    await chunk(store, lease)
    held = await leased(store)

    await store.delete(TENANT, job.id)
    while await store.tidy():
        pass

    assert await chunk(store, held) is LeaseStatus.LOST
    with pytest.raises(JobUnknown):
        await store.get(TENANT, job.id)
    kept = await submitted(store, rows_of(1))
    async with working(store, Handler()):
        await ended(store, kept.id)
    assert len(await lines_of(store, kept.id)) == 1


async def test_a_job_pauses_once_it_has_spent_what_it_may(store: JobStore) -> None:
    job = await submitted(store, rows_of(ROWS), max_cost=0.5)
    async with working(store, Handler(cost=0.01), chunks=1):
        paused = await ended(store, job.id, state="paused")

    assert paused.problem is not None
    assert "max_cost of 0.5" in paused.problem
    assert paused.counts.usage.cost is not None
    assert 0.5 <= paused.counts.usage.cost < 0.01 * ROWS
    with pytest.raises(JobStateConflict, match="max_cost"):
        await store.act(TENANT, job.id, "resume")


async def test_rows_are_found_by_their_status_tier_and_decision_and_returned_as_submitted(store: JobStore) -> None:
    rows = [*rows_of(ROWS - 1, row120="degraded", row121="degraded", row130="not_judged"), "{torn"]
    job = await submitted(store, rows, name="nightly", versions='{"judge": "a"}')
    await submitted(store, rows_of(1), name="other")
    async with working(store, Handler()):
        await ended(store, job.id)

    async def found(after: int, limit: int, status: str | None = None, tier: str | None = None) -> list[int]:
        where = RowFilter(status, tier)
        return [each.row for each in await store.find_rows(TENANT, job.id, after=after, limit=limit, where=where)]

    assert await found(-1, 3) == [0, 1, 2]
    assert await found(120, 5, None, "lexical") == [121]
    assert await found(-1, 5, "not_judged") == [130]
    assert await found(-1, 5, "invalid", "llm") == []
    assert [each.row for each in await store.read_rows(TENANT, job.id, [200, 3, 999])] == [3, 200]
    record = await store.record(TENANT, job.id, 120)
    assert isinstance(record, Record)
    assert (record.custom_id, record.sample.answer) == ("q120", "degraded")
    assert isinstance(await store.record(TENANT, job.id, ROWS - 1), RecordProblem)
    assert await store.record(TENANT, job.id, ROWS) is None
    assert [each.name for each in await store.jobs(TENANT, before=None, limit=5, name="nightly")] == ["nightly"]
    assert (await store.get(TENANT, job.id)).versions == '{"judge": "a"}'
    with pytest.raises(JobUnknown):
        await store.record("another", job.id, 0)


async def test_labels_of_several_people_are_kept_until_their_job_is_deleted(store: JobStore, stores: Stores) -> None:
    job = await submitted(store, rows_of(3))
    for label in (Label(0, "ann", 1), Label(0, "bob", 0, (1, 4)), Label(2, "ann", None), Label(0, "ann", 0)):
        await store.put_label(TENANT, job.id, label)
    await store.drop_label(TENANT, job.id, 2, "ann")
    with pytest.raises(JobUnknown):
        await store.labels("another", job.id)

    again = stores.open()
    kept = {each.person: each for each in await again.labels(TENANT, job.id)}
    mine = await again.labels(TENANT, job.id, person="ann")
    await store.delete(TENANT, job.id)
    with pytest.raises(JobUnknown):
        await again.labels(TENANT, job.id)
    await again.close()

    assert {name: (each.row, each.label, each.sentences) for name, each in kept.items()} == {
        "ann": (0, 0, ()),
        "bob": (0, 0, (1, 4)),
    }
    assert [each.row for each in mine] == [0]
