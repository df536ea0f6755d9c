"""Health, readiness, version and the page of documentation: open to all, and nothing secret on them."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from plumbline import __version__
from plumbline.judging.ports.observation import State
from plumbline.service.access.keys import Scope
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge
from tests.running.keyed_service import made_key
from tests.running.service import judge_settings, plain_settings, running

ROOT = Path(__file__).parents[2]
KEY = "key-0123456789abcdef"
OPERATIONS = ["/healthz", "/readyz", "/version"]
_LOADED = re.compile(r"""(?:src|href|url)\s*[=:]\s*\(?["']([^"']+)["']""", re.IGNORECASE)


async def test_the_process_says_that_it_is_there(judge: ScriptedJudge) -> None:
    async with running(judge_settings(judge)) as client:
        response = await client.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert judge.calls == 0


@pytest.mark.parametrize(
    ("state", "code", "status", "first"),
    [
        (State.READY, 200, "ready", "embedding"),
        (State.IDLE, 200, "ready", "embedding"),
        (State.LOADING, 503, "loading", "embedding"),
        (State.UNAVAILABLE, 200, "ready", "lexical"),
    ],
)
async def test_readiness_follows_the_model(state: State, code: int, status: str, first: str) -> None:
    async with running(plain_settings(), encoder=WordEncoder(state=state)) as client:
        response = await client.get("/readyz")

    report = response.json()
    assert (response.status_code, report["status"], report["first_tier"]) == (code, status, first)
    assert list(report["tiers"]) == ["llm", "embedding", "lexical"]
    assert report["tiers"]["embedding"]["state"] == state
    assert report["tiers"]["lexical"]["state"] == "ready"
    assert report["jobs"] == {"state": "ready", "detail": "jobs are kept in plumbline-data"}


async def test_callers_from_elsewhere_learn_the_states_alone() -> None:
    """Which host judges, which model runs and where jobs are kept is no matter of everybody's."""
    forwarded = {"X-Forwarded-For": "203.0.113.7"}
    async with running(plain_settings(api_keys=(SecretStr(KEY),)), encoder=WordEncoder()) as client:
        near = (await client.get("/readyz")).json()
        far = (await client.get("/readyz", headers=forwarded)).json()
        wrong = (await client.get("/readyz", headers={**forwarded, "X-API-Key": "wrong-key-0123456"})).json()
        keyed = (await client.get("/readyz", headers={**forwarded, "X-API-Key": KEY})).json()

    assert near == keyed
    assert near["jobs"]["detail"] == "jobs are kept in plumbline-data"
    assert far == wrong
    assert [each["detail"] for each in (*far["tiers"].values(), far["jobs"])] == ["", "", "", ""]
    without = {name: {**each, "detail": ""} for name, each in near["tiers"].items()}
    assert far == {**near, "tiers": without, "jobs": {**near["jobs"], "detail": ""}}


async def test_a_key_without_the_scope_learns_no_more(tmp_path: Path) -> None:
    secret = made_key(tmp_path, "ci", Scope.EVALUATE)
    async with running(plain_settings(data_dir=tmp_path), encoder=WordEncoder()) as client:
        headers = {"X-Forwarded-For": "203.0.113.7", "X-API-Key": secret}
        report = (await client.get("/readyz", headers=headers)).json()

    assert {each["detail"] for each in report["tiers"].values()} == {""}


async def test_the_judge_is_named_by_model_and_host_alone(judge: ScriptedJudge) -> None:
    base_url = judge.base_url.replace("://", "://user:sk-password-in-url@") + "?key=sk-in-query"

    async with running(judge_settings(judge, llm_base_url=base_url)) as client:
        response = await client.get("/readyz")

    host = judge.base_url.removeprefix("http://").removesuffix("/v1")
    report = response.json()
    assert report["first_tier"] == "llm"
    assert report["tiers"]["llm"] == {"state": "ready", "detail": f"generic: judge-1 at {host} (plain)"}
    assert "sk-" not in response.text


async def test_the_version_names_what_moves_scores() -> None:
    async with running(plain_settings()) as client:
        report = (await client.get("/version")).json()

    files = [
        *(ROOT / "prompts" / "verify_claims").glob("v4.*.toml"),
        *(ROOT / "prompts" / "check_claims").glob("v4.*.toml"),
    ]
    assert (report["name"], report["version"]) == ("plumbline", __version__)
    assert report["prompts"] == {
        f"{file.parent.name}/{file.stem}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }
    assert len(report["prompts"]) == 4
    assert len(report["calibrations"]) >= 1


@pytest.mark.parametrize("path", OPERATIONS)
async def test_head_is_get_without_a_body(path: str) -> None:
    async with running(plain_settings()) as client:
        got = await client.get(path)
        head = await client.head(path)

    assert head.status_code == got.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == got.headers["content-length"]


async def test_the_documentation_loads_nothing_from_elsewhere() -> None:
    async with running(plain_settings()) as client:
        page = await client.get("/docs")
        loaded = [address for address in _LOADED.findall(page.text) if not address.startswith(("#", "data:"))]
        codes = {address: (await client.get(address)).status_code for address in loaded}

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self' 'sha256-" in policy
    assert "https://" not in page.text
    assert "http://" not in page.text
    assert "/openapi.json" in codes
    assert len([address for address in loaded if address.endswith((".js", ".css"))]) >= 2
    assert set(codes.values()) == {200}, codes


async def test_operations_say_what_their_schemas_say() -> None:
    async with running(plain_settings()) as client:
        document: dict[str, Any] = (await client.get("/openapi.json")).json()
        answers = {path: (await client.get(path)).json() for path in OPERATIONS}

    for path, answer in answers.items():
        schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        properties = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]["properties"]
        assert set(answer) == set(properties)
