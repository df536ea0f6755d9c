"""What a key has made is another key's on no route: read off the service's own document, so that none is forgotten."""

import re
from pathlib import Path
from typing import Any

import pytest

from plumbline.main import create_app
from plumbline.rows.jobs.store import JobStore
from plumbline.service.access.keys import KEYS_FILE_NAME, Scope, create_key, revoke_key, rotate_key
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion
from tests.running.edge_app import client_of, read_problem
from tests.running.job_service import JOBS_URL, jobs_running, read_job, read_rows, row, submitted, work
from tests.running.keyed_service import keyed_settings, made_key, with_key
from tests.running.service import URL, claim, judge_settings, running, verdicts

CONTEXT = "The Marlow Bridge was opened in 1931."
BODIES: dict[str, Any] = {"retry_job": {"select": "failed"}}


JOB_URL = f"{JOBS_URL}/{{job_id}}"
# The second test holds both against the document.
OPERATIONS = {
    "get_job": ("GET", JOB_URL),
    "delete_job": ("DELETE", JOB_URL),
    "get_job_results": ("GET", f"{JOB_URL}/results"),
    "get_job_report": ("GET", f"{JOB_URL}/report"),
    "pause_job": ("POST", f"{JOB_URL}/pause"),
    "resume_job": ("POST", f"{JOB_URL}/resume"),
    "cancel_job": ("POST", f"{JOB_URL}/cancel"),
    "retry_job": ("POST", f"{JOB_URL}/retry"),
}
OTHER_JOBS = {("get_job_report", "baseline"), ("list_jobs", "before")}


def test_every_operation_on_jobs_is_asked_below(document: dict[str, Any]) -> None:
    paths = document["paths"]
    found = [(method.upper(), path, each) for path, item in paths.items() for method, each in item.items()]

    on_one = {each["operationId"]: (method, path) for method, path, each in found if "{job_id}" in path}
    beside = {(each["operationId"], it["name"]) for _, _, each in found for it in each.get("parameters", [])}

    assert on_one == OPERATIONS
    assert {each for each in beside if each[1] in ("baseline", "before")} == OTHER_JOBS
    # a new path with the id under another name would be forgotten here
    assert {name for path in paths for name in re.findall(r"\{(.*?)\}", path)} == {"job_id"}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("is_worked_on", [False, True])
async def test_a_job_of_another_key_is_as_one_that_is_not_there(
    tmp_path: Path, store: JobStore, operation: str, is_worked_on: bool
) -> None:
    method, path = OPERATIONS[operation]
    body = BODIES.get(operation)
    mine, other = made_key(tmp_path, "mine"), made_key(tmp_path, "other")
    async with jobs_running(store, keyed_settings(tmp_path)) as client:
        client.headers.update(with_key(mine))
        job_id = await submitted(client, "a", "b")
        if is_worked_on:
            await work(store)
        before = read_job(await client.get(f"{JOBS_URL}/{job_id}"))

        theirs, nobodys = [
            await client.request(method, path.replace("{job_id}", each), json=body, headers=with_key(other))
            for each in (job_id, "job_of_nobody")
        ]
        after = read_job(await client.get(f"{JOBS_URL}/{job_id}"))
        without = await client.request(method, path.replace("{job_id}", job_id), headers={"Authorization": ""})

    refused, unknown = read_problem(theirs, 404), read_problem(nobodys, 404)
    assert (refused.type, refused.title, refused.detail) == (unknown.type, unknown.title, unknown.detail)
    assert refused.type == "urn:plumbline:problem:job-unknown"
    assert after == before
    read_problem(without, 401)


@pytest.mark.parametrize(("operation", "name"), sorted(OTHER_JOBS))
async def test_a_job_of_another_key_cannot_be_named_beside_either(
    tmp_path: Path, store: JobStore, operation: str, name: str
) -> None:
    _, path = OPERATIONS.get(operation, ("GET", JOBS_URL))
    mine, other = made_key(tmp_path, "mine"), made_key(tmp_path, "other")
    async with jobs_running(store, keyed_settings(tmp_path)) as client:
        client.headers.update(with_key(mine))
        theirs = await submitted(client, "a")
        await work(store)
        client.headers.update(with_key(other))
        own = await submitted(client, "b")
        await work(store)

        response = await client.get(path.replace("{job_id}", own), params={name: theirs})

    assert read_problem(response, 404).type == "urn:plumbline:problem:job-unknown"


async def test_lists_and_idempotency_keys_are_a_keys_own(tmp_path: Path, store: JobStore) -> None:
    secrets = [made_key(tmp_path, name) for name in ("mine", "other")]
    ids, lists, replays = [], [], []
    async with jobs_running(store, keyed_settings(tmp_path)) as client:
        for secret in (*secrets, *secrets):
            headers = {**with_key(secret), "Idempotency-Key": "nightly"}
            answer = await client.post(JOBS_URL, json={"rows": [row("a")]}, headers=headers)
            ids.append(read_job(answer, 202)["id"])
            replays.append("idempotency-replayed" in answer.headers)
        for secret in secrets:
            jobs = (await client.get(JOBS_URL, headers=with_key(secret))).json()["jobs"]
            lists.append([job["id"] for job in jobs])

    assert replays == [False, False, True, True]
    assert ids[0] != ids[1]
    assert ids[:2] == ids[2:]
    assert lists == [[ids[0]], [ids[1]]]


async def test_kept_verdicts_are_a_keys_own_and_outlive_its_secret(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(completion(verdicts([claim(CONTEXT, "supported", CONTEXT)])))
    mine, other = made_key(tmp_path, "mine"), made_key(tmp_path, "other")
    settings = judge_settings(judge, data_dir=tmp_path, cache_path=tmp_path / "verdicts.sqlite")
    sample = {"contexts": [CONTEXT], "answer": CONTEXT}
    async with running(settings) as client:
        answers = [await client.post(URL, json=sample, headers=with_key(secret)) for secret in (mine, other, mine)]
    rotated = rotate_key(tmp_path / KEYS_FILE_NAME, "mine")
    async with running(settings) as client:
        answers.append(await client.post(URL, json=sample, headers=with_key(rotated)))

    assert [answer.json()["trace"]["judge"]["cache"] for answer in answers] == ["miss", "miss", "hit", "hit"]
    assert judge.calls == 2


async def test_jobs_outlive_the_secret_that_made_them(tmp_path: Path, store: JobStore) -> None:
    path = tmp_path / KEYS_FILE_NAME
    first = create_key(path, "team", scopes=[Scope.JOBS])
    settings = keyed_settings(tmp_path)
    async with jobs_running(store, settings) as client:
        client.headers["X-API-Key"] = first
        job_id = await submitted(client, "a")
        await work(store)

    rotated = rotate_key(path, "team")
    revoke_key(path, "team")
    brought_back = rotate_key(path, "team")

    app = create_app(keyed_settings(tmp_path), encoder=WordEncoder(), store=store)
    async with app.router.lifespan_context(app), client_of(app) as client:
        results = await client.get(f"{JOBS_URL}/{job_id}/results", headers=with_key(brought_back))
        refused = [
            (await client.get(f"{JOBS_URL}/{job_id}", headers=with_key(each))).status_code for each in (first, rotated)
        ]

    assert len(read_rows(results)) == 1
    assert refused == [401, 401]
