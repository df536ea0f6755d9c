"""Problems: one shape for every failure, which names the field and the limit and repeats nothing."""

from functools import partial
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from structlog.testing import capture_logs

from plumbline.ground.errors import AccessDenied, BadRequest, PlumblineError
from plumbline.schemas.problem import INTERNAL, FieldProblem, Problem
from plumbline.service.api.body_stream import BodyLimits
from plumbline.service.api.edge import install_edge
from plumbline.service.api.problems import (
    KIND_BY_ERROR,
    MAX_PROBLEM_BYTES,
    field_problems,
    install_problem_handlers,
    json_pointer,
    kind_of,
    printable,
    problem_response,
)
from tests.making.cases import load_cases
from tests.running.edge_app import Sample, client_of, edge_app, read_problem, subclasses

URL = "/v1/evaluations"

STATUS_BY_NAME = load_cases("problems", "statuses")


def problem_of(**fields: Any) -> list[FieldProblem]:
    body = {"contexts": [], "answer": "", **fields}
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate(body)
    items = [{**item, "loc": ("body", *item["loc"])} for item in caught.value.errors()]
    return field_problems(RequestValidationError(items, body=body), Sample)


@pytest.mark.parametrize("error_class", list(subclasses(PlumblineError)))
def test_every_error_of_the_tree_has_a_status(error_class: type[PlumblineError]) -> None:
    assert kind_of(error_class).status == STATUS_BY_NAME.get(error_class.__name__, 500)


@pytest.mark.parametrize("root", [BadRequest, AccessDenied])
def test_every_error_that_a_caller_can_cause_has_a_kind_of_its_own(root: type[PlumblineError]) -> None:
    assert all(error_class in KIND_BY_ERROR for error_class in subclasses(root))


def test_kinds_are_told_apart_by_their_urn() -> None:
    slugs = [kind.slug for kind in KIND_BY_ERROR.values()]

    assert len(set(slugs)) == len(slugs)


def test_a_new_error_takes_the_status_of_its_ancestor() -> None:
    class StrangeBody(BadRequest): ...

    assert kind_of(StrangeBody).status == 400


# --- field problems


def test_a_union_is_pointed_at_by_its_place_and_not_by_its_tags() -> None:
    problems = problem_of(passages=["fine", {"txt": "x"}, 3])

    assert {problem.pointer for problem in problems} == {
        "/passages/1", "/passages/1/text", "/passages/1/txt", "/passages/2",
    }  # fmt: skip


def test_a_close_name_is_suggested_inside_of_lists_and_unions_too() -> None:
    problems = problem_of(passages=[{"text": "a", "sauce": "b"}])

    found = [(each.pointer, each.detail) for each in problems]
    assert ("/passages/0/sauce", "unknown field 'sauce'; did you mean 'source'?") in found


def test_the_text_of_a_value_error_is_not_shown_but_that_of_a_custom_error_is() -> None:
    told = problem_of(question="tell: my secret")
    said = problem_of(question="say: my secret")

    assert [(each.pointer, each.detail) for each in told] == [("/question", "is not valid (value_error)")]
    assert [(each.pointer, each.detail) for each in said] == [
        ("/question", "expected labels that differ by their letters or digits")
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("contexts", "contexts"),
        ("a" * 64, "a" * 64),
        ("a" * 65, "a" * 61 + "..."),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ("答", "\\u7b54"),
        ("\ud800", "\\ud800"),
        ("\u202e", "\\u202e"),
        ("😀" * 64, "\\U0001f600" * 6 + "\\..."),
    ],
)
def test_names_of_the_caller_are_shown_short_and_in_ascii(name: str, shown: str) -> None:
    assert printable(name) == shown


def test_a_pointer_escapes_as_rfc_6901_says() -> None:
    # RFC 6901 section 5: "/a~1b" is the key "a/b", "/m~0n" the key "m~n"
    assert json_pointer(["a/b", "m~n", 0]) == "/a~1b/m~0n/0"


# --- answers


async def test_a_wrong_parameter_is_named() -> None:
    response = await client_of(edge_app()).get("/v1/things/many", params={"limit": "secret"})

    problem = read_problem(response, 422)
    assert problem.detail == "2 problems in the request"
    assert [(error.pointer, error.detail.split(":")[0]) for error in problem.errors] == [
        ("", "path parameter 'number'"),
        ("", "query parameter 'limit'"),
    ]
    assert "secret" not in response.text


async def test_at_most_20_problems_are_listed_and_the_rest_counted() -> None:
    response = await client_of(edge_app()).post(URL, json={f"{n}\n" * 99: "secret" for n in range(60)})

    problem = read_problem(response, 422)
    # 60 unknown fields, and `contexts` and `answer` missing
    assert problem.detail == "62 problems in the request; the first 20 follow"
    assert len(problem.errors) == 20
    assert "secret" not in response.text


def test_a_problem_that_would_be_too_large_lists_fewer_fields() -> None:
    scope = {"type": "http", "headers": [], "query_string": b""}
    errors = [FieldProblem(pointer="\ud800" * 160, detail="😀" * 240)] * 20

    response = problem_response({**scope, "path": "/\ud800" * 999}, INTERNAL, detail="😀" * 9999, errors=errors)

    problem = Problem.model_validate_json(bytes(response.body).replace(b"\\ud800", b"?"))
    assert 0 < len(problem.errors) < 20
    assert len(response.body) < MAX_PROBLEM_BYTES


async def test_a_bug_is_answered_in_general_terms_and_logged_by_its_places() -> None:
    with capture_logs() as logs:
        response = await client_of(edge_app()).post(
            "/v1/crash", json={"contexts": [], "answer": "my secret", "question": "my secret"}
        )

    problem = read_problem(response, 500)
    assert problem.type == "urn:plumbline:problem:internal"
    assert "secret" not in response.text
    failed = next(event for event in logs if event["event"] == "request_failed")
    assert failed["error"] == "builtins.RuntimeError"
    assert failed["request_id"] == problem.request_id
    assert failed["frames"][-1].endswith("_router.<locals>.crash")
    assert failed["causes"][0].startswith("builtins.KeyError at ")
    assert "secret" not in repr(logs)


async def test_an_error_of_ours_that_is_no_fault_of_the_caller_keeps_its_message() -> None:
    response = await client_of(edge_app()).post("/v1/fail", json={"contexts": [], "answer": "my secret"})

    read_problem(response, 500)
    assert "secret" not in response.text


async def test_an_http_exception_is_a_problem_with_its_headers() -> None:
    app = FastAPI()
    install_problem_handlers(app)
    install_edge(app, body_limits=partial(BodyLimits, max_bytes=1024, timeout_seconds=1))

    @app.get("/busy")
    async def busy() -> None:
        raise HTTPException(503, "no tier is ready", headers={"Retry-After": "3"})

    response = await client_of(app).get("/busy")

    problem = read_problem(response, 503)
    assert problem.type == "urn:plumbline:problem:service-unavailable"
    assert problem.detail == "no tier is ready"
    assert response.headers["retry-after"] == "3"


# --- the OpenAPI document
