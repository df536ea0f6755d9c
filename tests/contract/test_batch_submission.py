"""Submitting batch files: nothing is lost or sent twice, whatever the provider or the machine does in between."""

import json

import pytest

from tests.doubles.scripted_replies import RecordedRequest, Reply, Step, openai_error, status
from tests.running.batch_file_runs import ROWS, Run, live, timeless
from tests.running.service import JUDGE_KEY

SOON = {"retry-after-ms": "1"}


@pytest.fixture
def run(run: Run) -> Run:
    run.prepare(*ROWS)
    return run


def busy(code: int) -> Reply:
    return openai_error(code, "limit_requests" if code == 429 else None, headers=SOON)


def test_files_go_up_with_the_judges_key_and_nothing_of_another_vendor(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer other\nX-Other: 1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-other")

    assert run.submit() == 0

    assert run.batches.keys == {f"Bearer {JUDGE_KEY}"}
    assert not {name for name in run.batches.header_names if name.startswith(("openai-", "x-other"))}
    (name, data), *others = run.batches.files.values()
    assert data == (run.folder / "requests.jsonl").read_bytes()
    assert name.startswith("requests.")
    assert others == []


@pytest.mark.parametrize("code", [429, 500])
def test_an_upload_that_is_refused_is_tried_again(run: Run, code: int) -> None:
    run.batches.refuse("POST /files", busy(code), busy(code))

    assert run.submit() == 0

    assert len(run.batches.files) == 1
    assert run.collect() == 0


@pytest.mark.parametrize("code", [429, 500])
def test_a_batch_that_is_refused_is_made_by_submitting_again(run: Run, code: int) -> None:
    run.batches.refuse("POST /batches", busy(code))
    assert run.submit() == 2

    assert run.submit() == 0

    assert len(run.batches.files) == len(run.batches.batches) == 1


def test_a_batch_that_was_made_though_the_reply_was_lost_is_found_and_not_made_again(run: Run) -> None:
    def made_and_lost(request: RecordedRequest) -> Step:
        run.batches.made(request)
        return busy(500)

    run.batches.refuse("POST /batches", made_and_lost)
    assert run.submit() == 2

    assert run.submit() == 0

    assert list(run.batches.batches) == ["batch-1"]
    assert run.state()["batch"]["id"] == "batch-1"


def test_a_crash_between_upload_and_batch_goes_on_with_the_same_file(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.batches.refuse("POST /batches", openai_error(401, "invalid_api_key"))
    assert run.submit() == 2
    assert capsys.readouterr().err.splitlines() == [f"plumbline: {_host(run)}: HTTP 401 (invalid_api_key)"]
    assert run.state()["batch"] is None

    assert run.submit() == 0

    assert len(run.batches.files) == 1
    assert run.batches.batches["batch-1"]["input_file_id"] == "file-1"


def test_a_kill_before_the_batch_was_recorded_finds_it_and_does_not_make_it_again(run: Run) -> None:
    run.submit()
    _forget(run, batch=None)

    assert run.submit() == 0

    assert list(run.batches.batches) == ["batch-1"]
    assert run.state()["batch"]["id"] == "batch-1"


def test_a_kill_during_the_upload_uploads_again(run: Run) -> None:
    run.submit()
    run.batches.batches.clear()
    _forget(run, file_id=None, batch=None, is_batch_begun=False)

    assert run.submit() == 0

    assert [batch["input_file_id"] for batch in run.batches.batches.values()] == ["file-2"]


def test_what_cannot_be_known_is_not_paid_twice(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.submit()
    _forget(run, batch=None)
    run.batches.lists_batches = False

    assert run.submit() == 2

    assert list(run.batches.batches) == ["batch-1"]
    assert "a batch may have been made before" in capsys.readouterr().err


def test_a_provider_that_lists_nothing_gets_its_batches_all_the_same(run: Run) -> None:
    run.batches.lists_batches = False

    assert run.submit() == 0

    assert list(run.batches.batches) == ["batch-1"]


def test_the_query_of_the_base_url_is_in_every_call(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_BASE_URL", f"{run.judge.base_url}?api-version=1")
    run.prepare()

    assert (run.submit(), run.collect()) == (0, 0)

    assert [request.path for request in run.judge.requests] == [
        "/v1/files?api-version=1",
        "/v1/batches?api-version=1",
        "/v1/batches/batch-1?api-version=1",
        "/v1/files/file-2/content?api-version=1",
    ]


def test_a_reply_that_is_no_batch_is_one_line(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.batches.refuse("POST /files", status(200, {"data": 1}))

    assert run.submit() == 2

    assert capsys.readouterr().err == f"plumbline: {_host(run)}: the reply is not one of a Batch API\n"


def test_a_file_that_was_changed_is_not_sent(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with (run.folder / "requests.jsonl").open("a") as file:
        file.write("{}\n")

    assert run.submit() == 2

    assert run.batches.files == {}
    assert "requests.jsonl: was changed since it was prepared" in capsys.readouterr().err


def test_files_are_split_at_the_limits_and_all_are_submitted_and_collected(run: Run) -> None:
    run.prepare(options=["--max-requests", "2"])

    names = [file["name"] for file in json.loads(run.manifest.read_text())["files"]]
    assert names == ["requests.jsonl", "requests-2.jsonl"]
    assert run.submit() == 0
    assert run.collect() == 0
    assert len(run.batches.batches) == 2
    assert [timeless(line["result"]) for line in run.results()] == live(*ROWS)


def test_collect_says_what_is_not_done_yet(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.batches.looks = 2
    assert run.collect() == 2
    assert "requests.jsonl: has no batch yet; submit it first" in capsys.readouterr().err
    run.submit()

    assert run.collect() == 3
    assert "requests.jsonl: batch-1 in_progress, 0 of 3 done" in capsys.readouterr().err
    assert not (run.folder / "results.jsonl").exists()
    assert run.collect() == 0


def _host(run: Run) -> str:
    return run.judge.base_url.removeprefix("http://").removesuffix("/v1")


def _forget(run: Run, **changes: object) -> None:
    """The manifest as a crash would have left it."""
    manifest = json.loads(run.manifest.read_text())
    manifest["files"][0] |= changes
    run.manifest.write_text(json.dumps(manifest))
