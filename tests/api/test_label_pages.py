"""The pages of labels over HTTP: marks of several people, undo, export, whose they are."""

import asyncio
import json
import re
from pathlib import Path

import httpx2
import pytest

from plumbline.extras.calibration.labels import read_labels
from plumbline.rows.jobs.store import JobStore
from tests.api.test_pages import OWN, cookie_of, scripts, text_of
from tests.making.cases import load_cases
from tests.making.job_runs import CONTEXT, make_run
from tests.making.record_files import write_file
from tests.reading.report_html import HOSTILE
from tests.running.job_service import jobs_running
from tests.running.keyed_service import keyed_settings, made_key

NOTE = "The date is wrong <script>alert(1)</script> \u202e"


async def mark(client: httpx2.AsyncClient, job_id: str, person: str, row: int, label: str, *sentences: int) -> None:
    data = {"person": person, "row": str(row), "mark": label, "sentence": [str(each) for each in sentences]}
    answer = await client.post(f"/label/{job_id}", data=data, headers=OWN)
    assert answer.status_code == 303, answer.text[-500:]


def row_of(page: httpx2.Response) -> int | None:
    found = re.search(r'name="row" value="(\d+)"', page.text)
    return None if found is None else int(found[1])


async def test_rows_are_marked_one_after_another_without_their_scores(store: JobStore) -> None:
    run = await make_run(store, 4)
    async with jobs_running(store) as client:
        seen: list[int | None] = []
        for label in ("faithful", "unfaithful", "skip", "faithful"):
            page = await client.get(f"/label/{run.id}?person=ann", headers=OWN)
            row = row_of(page)
            assert row is not None
            seen.append(row)
            await mark(client, run.id, "ann", row, label, 0)
        done = await client.get(f"/label/{run.id}?person=ann", headers=OWN)
        await client.post(f"/label/{run.id}", data={"person": "ann", "mark": "undo"}, headers=OWN)
        again = await client.get(f"/label/{run.id}?person=ann", headers=OWN)
        other = await client.get(f"/label/{run.id}?person=bob", headers=OWN)
        labels = await store.labels("", run.id)

    assert sorted(each for each in seen if each is not None) == [0, 1, 2, 3]
    assert CONTEXT in text_of(page)
    assert not {"0.250", "1.000", "did not pass", "Not mentioned", "support"} & set(re.split(r" (?=\w)", text_of(page)))
    assert "every row" in text_of(done)
    assert row_of(again) == seen[-1]
    assert row_of(other) is not None
    assert [(each.label, each.sentences) for each in labels] == [(1, ()), (0, (0,)), (None, ())]


async def test_the_most_uncertain_row_is_labelled_from_its_own_page(store: JobStore) -> None:
    run = await make_run(store, 6, unsure={4})
    async with jobs_running(store) as client:
        seen = []
        for _ in range(2):
            went = await client.get(f"/runs/{run.id}/unsure?person=ann", headers=OWN)
            page = await client.get(went.headers["location"], headers=OWN)
            seen.append(row_of(page))
            data = {"person": "ann", "row": str(seen[-1]), "mark": "unfaithful", "from": "row", "note": NOTE}
            back = await client.post(f"/label/{run.id}", data=data, headers=OWN)
        shown = await client.get(back.headers["location"], headers=OWN)
        listed = await client.get(f"/runs/{run.id}", headers=OWN)
        for row in range(6):
            await mark(client, run.id, "bob", row, "faithful")
        long = await client.post(f"/label/{run.id}", data={**data, "note": "x" * 10_000}, headers=OWN)
        notes = await client.get(f"/label/{run.id}", headers=OWN)
        none_left = await client.get(f"/runs/{run.id}/unsure", headers=OWN)

    assert seen[0] == 4
    assert seen[1] not in (4, None)
    assert f"/runs/{run.id}/rows/{seen[1]}?person=ann" in back.headers["location"]
    assert re.search(r"ann\W+Unfaithful", text_of(shown))
    assert "<script>" in text_of(notes)
    assert [name for name, _ in scripts(notes)].count("script") == 1
    assert re.search(r"date\W+2\b", text_of(notes))
    assert long.status_code == 422
    assert "first 6 judged rows" in text_of(listed)
    assert none_left.headers["location"] == f"/runs/{run.id}"


async def test_two_people_at_once_never_overwrite_each_other(store: JobStore) -> None:
    run = await make_run(store, 30)
    async with jobs_running(store) as client:
        both = [("ann", "faithful"), ("bob", "unfaithful")]
        await asyncio.gather(*(mark(client, run.id, who, row, what) for row in range(30) for who, what in both))
        page = await client.get(f"/label/{run.id}", headers=OWN)
        chinese = await client.get(f"/label/{run.id}?lang=zh", headers=OWN)
        labels = await store.labels("", run.id)

    assert {(each.row, each.person, each.label) for each in labels} == {
        (row, who, int(what == "faithful")) for row in range(30) for who, what in both
    }
    # 30 of 30 disagree; by chance 2 * 30 * 30 of 60 * 59: 1 - 59/30
    assert "2 people, 30 rows with two labels or more · Krippendorff's alpha -0.97" in text_of(page)
    assert "2 人，30 行有两个以上的标注 · Krippendorff α -0.97" in text_of(chinese)


async def test_where_everybody_gave_one_label_the_page_says_why_there_is_no_figure(store: JobStore) -> None:
    run = await make_run(store, 3)
    async with jobs_running(store) as client:
        for who in ("ann", "bob", "cid"):
            await mark(client, run.id, who, 1, "faithful")
        page = text_of(await client.get(f"/label/{run.id}", headers=OWN))

    assert "Krippendorff's alpha – (all labels are the same, which chance explains)" in page
    assert "nan" not in page.lower().split()


async def test_labels_are_exported_for_calibrate(store: JobStore, tmp_path: Path) -> None:
    run = await make_run(store, 5)
    async with jobs_running(store) as client:
        for who, row, what in (
            ("ann", 1, "faithful"),
            ("bob", 1, "faithful"),
            ("ann", 2, "unfaithful"),
            ("ann", 3, "skip"),
        ):
            await mark(client, run.id, who, row, what)
        everybody = await client.get(f"/label/{run.id}/export", headers=OWN)
        one = await client.get(f"/label/{run.id}/export?person=bob", headers=OWN)

    rows = read_labels(write_file(tmp_path, "labels.jsonl", everybody.content)).rows
    assert [(row.sample.contexts, row.label) for row in rows] == [((CONTEXT,), 1), ((CONTEXT,), 0)]
    assert [json.loads(line)["custom_id"] for line in one.text.splitlines()] == ["q1"]
    assert everybody.headers["content-disposition"] == f'attachment; filename="{run.id}.labels.jsonl"'


async def test_labels_in_the_order_of_a_draw_make_the_rate_of_run_and_report(store: JobStore) -> None:
    run = await make_run(store, 120, score=lambda row: row % 7 / 7)
    async with jobs_running(store) as client:
        before = text_of(await client.get(f"/runs/{run.id}", headers=OWN))
        for _ in range(40):
            row = row_of(await client.get(f"/label/{run.id}?person=ann", headers=OWN))
            assert row is not None
            await mark(client, run.id, "ann", row, "unfaithful" if row % 7 < 3 else "faithful")
        page = text_of(await client.get(f"/runs/{run.id}", headers=OWN))
        report = (await client.get(f"/v1/jobs/{run.id}/report?format=json")).json()
        exported = await client.get(f"/label/{run.id}/export?drawn=true", headers=OWN)

    (rate,) = report["rates"]
    corrected = rate["estimate"]["corrected"]
    assert (rate["rows"], rate["labels"], rate["tier"]) == (120, 40, "lexical")
    # Rows 0 to 2 of each seven.
    assert corrected["low"] <= 52 / 120 <= corrected["high"]
    assert f"{corrected['share']:.1%} of the answers are unfaithful 95 % interval {corrected['low']:.1%}" in page
    assert "None of these means is the share" in before
    assert len(exported.text.splitlines()) == 40


@pytest.mark.parametrize(("data", "said"), load_cases("label_pages", "wrong_marks"))
async def test_a_mark_that_means_nothing_is_refused(store: JobStore, data: dict[str, str], said: str) -> None:
    run = await make_run(store, 5)
    async with jobs_running(store) as client:
        answer = await client.post(f"/label/{run.id}", data=data, headers=OWN)
        foreign = await client.post(f"/label/{run.id}", data=data, headers={"Origin": "https://evil.example"})

    assert answer.status_code == 422
    assert said in text_of(answer)
    assert foreign.status_code == 400
    assert await store.labels("", run.id) == []


async def test_labels_belong_to_the_key_of_their_run_and_end_with_it(store: JobStore, tmp_path: Path) -> None:
    mine, yours = made_key(tmp_path, "mine"), made_key(tmp_path, "yours")
    async with jobs_running(store, keyed_settings(tmp_path)) as client:
        row = {"contexts": ["c"], "answer": "a"}
        headers = {"Authorization": f"Bearer {mine}"}
        job_id = (await client.post("/v1/jobs", json={"rows": [row]}, headers=headers)).json()["id"]
        for path in (f"/label/{job_id}", f"/label/{job_id}?person=a", f"/label/{job_id}/export"):
            assert (await client.get(path, headers={**OWN, **cookie_of(yours)})).status_code == 404
        data = {"person": "a", "mark": "faithful", "row": "0"}
        assert (
            await client.post(f"/label/{job_id}", data=data, headers={**OWN, **cookie_of(yours)})
        ).status_code == 404
        start = await client.get("/label", headers={**OWN, **cookie_of(yours)})

    assert job_id not in start.text


async def test_no_text_of_a_row_or_a_name_becomes_markup(store: JobStore) -> None:
    texts = [text.replace("\0", "") for text in HOSTILE]
    name = "<b onclick=x>'\"</b>"
    run = await make_run(store, len(texts), name=" ".join(texts)[:200], answers=texts)
    async with jobs_running(store) as client:
        for row in range(len(texts)):
            page = await client.get(f"/label/{run.id}", params={"person": name}, headers=OWN)
            assert [each for each, _ in scripts(page)].count("script") == 1
            assert not [each for each, _ in scripts(page) if each in ("img", "iframe", "base", "object")]
            await mark(client, run.id, name, row, "faithful")
        overview = await client.get(f"/label/{run.id}", headers=OWN)

    assert "onclick" in text_of(overview)
    assert "<b onclick" not in overview.text
