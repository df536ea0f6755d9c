"""Whatever arrives, it is answered: by the route, or by a small problem that repeats no value."""

import json
from typing import Any

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from plumbline.service.api.json_body import parse_strictly
from tests.running.edge_app import Sample, client_of, edge_app, read_problem

APP = edge_app()
CANARY = "zq7canary"

# every code point there is, lone surrogates and NUL included
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
KEYS = st.sampled_from([*Sample.model_fields, "text", "contxts"]) | TEXTS
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS.map(CANARY.__add__) | st.just(10**70)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)
OBJECTS = st.fixed_dictionaries({}, optional=dict.fromkeys(Sample.model_fields, VALUES))
SAMPLES = st.fixed_dictionaries(
    {"contexts": st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))), "answer": st.just("a")}
)


async def post(body: bytes) -> httpx2.Response:
    headers = {"content-type": "application/json"}
    return await client_of(APP).post("/v1/evaluations", content=body, headers=headers)


BODIES = st.one_of(
    (VALUES | OBJECTS).map(lambda value: json.dumps(value).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()[:-3]),
    st.binary(max_size=200),
    st.text(alphabet='[]{}",:\\u0dD8 1eEN.-', max_size=60).map(str.encode),
)


@given(BODIES)
async def test_any_body_is_served_or_gets_a_small_problem_that_repeats_no_value(body: bytes) -> None:
    response = await post(body)

    if response.status_code != 200:
        assert response.status_code in (400, 422)
        read_problem(response, response.status_code)
        assert CANARY not in response.text


@given(SAMPLES, st.booleans())
async def test_what_is_good_json_is_read_as_json_reads_it(sample: dict[str, Any], is_ascii: bool) -> None:
    body = json.dumps(sample, ensure_ascii=is_ascii).encode()

    assert parse_strictly(body) == json.loads(body) == sample
