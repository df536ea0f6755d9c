"""The pages of runs over HTTP: whose jobs, which rows, forms that act on a job, hostile texts."""

import re
from pathlib import Path

import httpx2

from plumbline.rows.jobs.store import JobStore
from tests.api.test_pages import OWN, cookie_of, scripts, text_of
from tests.making.job_runs import make_run
from tests.reading.report_html import HOSTILE, Page
from tests.running.job_service import jobs_running, submitted, work
from tests.running.keyed_service import keyed_settings, made_key


def links(response: httpx2.Response) -> list[str]:
    return [attributes["href"] for name, attributes in Page(response.text).elements if name == "a"]


def scores_of(response: httpx2.Response) -> list[float]:
    return [float(each) for each in re.findall(r'<td[^>]*><span class="numbers">([0-9.]+)</span>', response.text)]


async def test_runs_are_listed_with_their_rates(store: JobStore) -> None:
    run = await make_run(store, 20)
    other = await make_run(store, 5, name="<b>other</b>")
    async with jobs_running(store) as client:
        everything = await client.get("/runs", headers=OWN)
        named = await client.get("/runs?name=nightly", headers=OWN)
        empty = await client.get("/runs?name=none", headers=OWN)

    # 15 of 20 passed
    assert "75.0% 53.1% to 88.8%" in text_of(everything)
    assert f"/runs/{run.id}" in links(named)
    assert f"/runs/{other.id}" not in links(named)
    assert "No runs yet" in text_of(empty)


async def test_unsure_rows_did_not_pass_and_are_found(store: JobStore) -> None:
    run = await make_run(store, 20, unsure=range(4))
    async with jobs_running(store) as client:
        info = (await client.get(f"/v1/jobs/{run.id}", headers=OWN)).json()
        everything = await client.get("/runs", headers=OWN)
        found = await client.get(f"/runs/{run.id}?passed=unsure", headers=OWN)
        row = await client.get(f"/runs/{run.id}/rows/0", headers=OWN)

    # Of 15 rows with a score that passes three are unsure: 12 of 20
    assert (info["outcomes"]["judged"], info["outcomes"]["passed"], info["outcomes"]["not_passed"]) == (20, 12, 4)
    assert "60.0%" in text_of(everything)
    assert [each.rsplit("/", 1)[1] for each in links(found) if "/rows/" in each] == ["0", "1", "2", "3"]
    assert text_of(found).count("unsure: no rule") == 0
    assert "unsure: no rule decides" in text_of(row)


async def test_runs_and_rows_are_paged(store: JobStore) -> None:
    for _ in range(51):
        await make_run(store, 1, name=None)
    long = await make_run(store, 120)
    async with jobs_running(store) as client:
        first = await client.get("/runs", headers=OWN)
        older = await client.get(next(each for each in links(first) if "before=" in each), headers=OWN)
        rows = await client.get(f"/runs/{long.id}?passed=no", headers=OWN)
        beyond = await client.get(f"/runs/{long.id}?after=49", headers=OWN)

    assert [sum("/runs/job_" in each for each in links(page)) for page in (first, older)] == [50, 2]
    numbers = [int(each.rsplit("/", 1)[1]) for each in links(rows) if "/rows/" in each]
    assert numbers == list(range(0, 120, 4))
    assert [int(each.rsplit("/", 1)[1]) for each in links(beyond) if "/rows/" in each] == list(range(50, 100))
    assert f"/runs/{long.id}?after=99" in links(beyond)


async def test_rows_are_sorted_by_score_over_all_pages(store: JobStore) -> None:
    run = await make_run(store, 120)
    async with jobs_running(store) as client:
        worst = await client.get(f"/runs/{run.id}?sort=worst", headers=OWN)
        following = next(each for each in links(worst) if "after=" in each)
        more = await client.get(following, headers=OWN)
        best = await client.get(f"/runs/{run.id}?sort=best&passed=no", headers=OWN)

    shown = [scores_of(page) for page in (worst, more)]
    assert [len(each) for each in shown] == [50, 50]
    assert shown[0] + shown[1] == sorted(shown[0] + shown[1])
    assert "sort=worst" in following
    assert scores_of(best) == sorted(scores_of(best), reverse=True)
    assert len(scores_of(best)) == 30


async def test_a_row_is_shown_as_it_was_submitted(store: JobStore) -> None:
    run = await make_run(store, 250, left=20)
    async with jobs_running(store) as client:
        row = await client.get(f"/runs/{run.id}/rows/208", headers=OWN)
        pending = await client.get(f"/runs/{run.id}/rows/249", headers=OWN)
        none = await client.get(f"/runs/{run.id}/rows/250", headers=OWN)

    assert "q208" in text_of(row)
    assert "It carries two railway tracks." in text_of(row)
    assert 'class="sentence not_mentioned"' in row.text
    assert "not scored yet" in text_of(pending)
    assert none.status_code == 404


async def test_two_runs_are_compared(store: JobStore) -> None:
    before = await make_run(store, 20)
    now = await make_run(store, 20, score=lambda row: 0.25 if row == 3 else 1.0)
    async with jobs_running(store) as client:
        page = await client.get(f"/runs/compare?before={before.id}&now={now.id}", headers=OWN)
        half = await client.get(f"/runs/compare?before={before.id}", headers=OWN)
        report = await client.get(f"/runs/{now.id}/report?lang=zh", headers=OWN)

    assert page.status_code == 200
    assert "Fails now q3" in text_of(page)
    assert f"/runs/{before.id}/rows/3" in links(page)
    assert half.status_code == 422
    assert "忠实度" in report.text
    assert "It carries two railway tracks." in report.text
    assert "When?" in report.text
    assert report.text.index('id="rows"') < report.text.index('id="scores"')
    assert report.headers["content-security-policy"] == "sandbox allow-scripts"


async def test_a_key_sees_its_own_runs_alone(store: JobStore, tmp_path: Path) -> None:
    mine, yours = made_key(tmp_path, "mine"), made_key(tmp_path, "yours")
    async with jobs_running(store, keyed_settings(tmp_path)) as client:
        headers = {"Authorization": f"Bearer {mine}"}
        made = await client.post("/v1/jobs", json={"rows": [{"contexts": ["c"], "answer": "a"}]}, headers=headers)
        job_id = made.json()["id"]
        own = await client.get("/runs", headers={**OWN, **cookie_of(mine)})
        pages = [
            await client.get(path, headers={**OWN, **cookie_of(yours)})
            for path in (
                f"/runs/{job_id}",
                f"/runs/{job_id}/rows/0",
                f"/runs/{job_id}/report",
                f"/runs/{job_id}/state",
                f"/runs/compare?before={job_id}&now={job_id}",
            )
        ]
        acted = await client.post(f"/runs/{job_id}/cancel", headers={**OWN, **cookie_of(yours)})
        listed = await client.get("/runs", headers={**OWN, **cookie_of(yours)})

    assert f"/runs/{job_id}" in links(own)
    assert [page.status_code for page in (*pages, acted)] == [404] * 6
    assert job_id not in listed.text


async def test_the_page_of_a_run_that_goes_on_asks_for_its_state_as_the_api_tells_it(store: JobStore) -> None:
    async with jobs_running(store) as client:
        job_id = await submitted(client, "a")
        page = await client.get(f"/runs/{job_id}", headers=OWN)
        state = await client.get(f"/runs/{job_id}/state", headers=OWN)
        told = await client.get(f"/v1/jobs/{job_id}")
        await work(store)
        ended = await client.get(f"/runs/{job_id}", headers=OWN)

    assert f'data-status="queued" data-state="/runs/{job_id}/state"' in page.text
    assert state.json() == told.json()
    assert state.headers["cache-control"] == "no-store"
    assert "connect-src 'self'" in page.headers["content-security-policy"]
    assert "data-state=" not in ended.text


async def test_a_job_is_paused_resumed_and_cancelled_by_forms_of_its_own_page(store: JobStore) -> None:
    async with jobs_running(store) as client:
        job_id = await submitted(client, "a", "b", name="now")
        foreign = await client.post(f"/runs/{job_id}/pause", headers={"Sec-Fetch-Site": "cross-site"})
        states = []
        for action in ("pause", "resume", "cancel"):
            answer = await client.post(f"/runs/{job_id}/{action}", headers=OWN)
            assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{job_id}")
            states.append((await store.get("", job_id)).state.value)
        again = await client.post(f"/runs/{job_id}/pause", headers=OWN)
        versions = (await store.get("", job_id)).versions

    assert foreign.status_code == 400
    assert states == ["paused", "queued", "cancelled"]
    assert again.status_code == 409
    assert '"prompt": "verify_claims' in str(versions)


async def test_no_text_of_a_job_becomes_markup(store: JobStore) -> None:
    texts = [text.replace("\0", "") for text in HOSTILE]
    run = await make_run(store, len(texts), name=" ".join(texts)[:200], answers=texts)
    plain = await make_run(store, len(texts))
    async with jobs_running(store) as client:
        for path in ("/runs", "/runs/{}", "/runs/{}/rows/3", "/runs/{}/rows/14", "/runs/compare?before={0}&now={0}"):
            hostile, tame = [await client.get(path.format(each.id), headers=OWN) for each in (run, plain)]
            assert hostile.status_code == 200
            assert scripts(hostile) == [
                (name, {key: value.replace(plain.id, run.id) for key, value in attributes.items()})
                for name, attributes in scripts(tame)
            ]
