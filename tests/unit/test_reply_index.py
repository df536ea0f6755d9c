"""Replies in files: whatever a line holds, it costs its own request alone."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.extras.provider_batches.replies import ReplyIndex
from plumbline.ground.errors import FailureReason, InvalidInput, TierFailure
from tests.making.cases import load_cases


def good(request_id: str, body: object = None) -> bytes:
    response = {"status_code": 200, "body": body or {"choices": []}}
    return json.dumps({"custom_id": request_id, "response": response, "error": None}).encode()


def bad(request_id: str, code: str) -> bytes:
    return json.dumps({"custom_id": request_id, "response": None, "error": {"code": code, "message": "x"}}).encode()


def index_of(folder: Path, *lines: bytes, asked: tuple[str, ...] = ("a",), status: str = "completed") -> ReplyIndex:
    requests, replies = folder / "requests.jsonl", folder / "replies.jsonl"
    requests.write_text("".join(json.dumps({"custom_id": each, "body": {}}) + "\n" for each in asked))
    replies.write_bytes(b"\n".join(lines))
    return ReplyIndex({requests: status}, [replies])


def test_a_good_line_wins_over_an_error_wherever_it_stands(tmp_path: Path) -> None:
    index = index_of(tmp_path, bad("a", "internal_error"), good("a"), bad("a", "batch_expired"))

    reply = index.find("a")

    assert (reply.status_code, json.loads(reply.body)) == (200, {"choices": []})
    assert index.passed_over == 2


@pytest.mark.parametrize(("code", "status"), load_cases("reply_index", "errors"))
def test_an_error_without_a_status_is_a_refusal_unless_it_may_pass(tmp_path: Path, code: str, status: int) -> None:
    index = index_of(tmp_path, bad("a", code))

    reply = index.find("a")

    assert reply.status_code == status
    assert json.loads(reply.body)["error"]["code"] == code


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("completed", FailureReason.UPSTREAM_ERROR),
        ("expired", FailureReason.TIMEOUT),
        ("failed", FailureReason.REJECTED),
        ("cancelled", FailureReason.UPSTREAM_ERROR),
    ],
)
def test_a_request_without_a_line_fails_as_its_batch_ended(tmp_path: Path, status: str, reason: FailureReason) -> None:
    index = index_of(tmp_path, status=status)

    with pytest.raises(TierFailure) as found:
        index.find("a")
    with pytest.raises(TierFailure) as unasked:
        index.find("b")

    assert (found.value.reason, unasked.value.reason) == (reason, FailureReason.NOT_ASKED)


def test_a_line_that_nobody_asked_for_is_counted_and_left(tmp_path: Path) -> None:
    index = index_of(tmp_path, good("b"), good("a"))

    assert index.find("a").request_id == "a"
    with pytest.raises(TierFailure):
        index.find("b")
    assert index.passed_over == 1


@given(noise=st.lists(st.binary(max_size=60) | st.sampled_from([good("a")[:40], b'{"custom_id":"a"}', b"null"])))
def test_noise_between_lines_costs_no_reply(tmp_path_factory: pytest.TempPathFactory, noise: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("noise")

    index = index_of(folder, *noise, b"", good("a"), *noise)

    assert index.find("a").status_code == 200


def test_a_file_of_requests_that_was_damaged_is_said(tmp_path: Path) -> None:
    requests = tmp_path / "requests.jsonl"
    requests.write_text("{}\n")

    with pytest.raises(InvalidInput, match=r"requests\.jsonl: holds a line that is no request"):
        ReplyIndex({requests: "completed"}, [])
