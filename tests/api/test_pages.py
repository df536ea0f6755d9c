"""The pages over HTTP: keys, forms of other origins, limits, languages; the playground's answers."""

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from plumbline.service.access.keys import Scope
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion
from tests.making.cases import load_cases
from tests.reading.report_html import HOSTILE, Page
from tests.running.keyed_service import keyed_settings, made_key
from tests.running.service import claim, judge_settings, plain_settings, running, verdicts

OWN = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html,*/*;q=0.8"}
SAMPLE = {"question": "When?", "context": ["It opened in 1931."], "answer": "It opened in 1931. It is red."}
JUDGED = verdicts(
    [claim("It opened in 1931.", "supported", "It opened in 1931.")], [claim("It is red.", "not_mentioned")]
)


def cookie_of(secret: str) -> dict[str, str]:
    return {"Cookie": f"plumbline_key={base64.urlsafe_b64encode(secret.encode()).decode().rstrip('=')}"}


def text_of(response: httpx2.Response) -> str:
    """The texts of a page in one line."""
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return re.sub(r"\s+", " ", " ".join(Page(response.text).texts))


async def test_a_sample_is_judged_by_one_click() -> None:
    async with running(plain_settings()) as client:
        start = await client.get("/", headers=OWN)
        judged = await client.post("/", data={"sample": "invented"}, headers=OWN)

    assert len(re.findall(r'name="sample" value="\w+"', start.text)) == 6
    assert "set DASHSCOPE_API_KEY" in text_of(start)
    assert re.findall(r'<li class="sentence (\w+)"', judged.text) == ["supported", "supported", "not_mentioned"]
    assert "Printing costs 10 cents" in judged.text
    assert judged.headers["cache-control"] == "no-store"
    assert "form-action 'self'" in judged.headers["content-security-policy"]


async def test_what_the_judge_says_is_shown_with_its_cost(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(JUDGED, usage=(90, 10)))
    async with running(judge_settings(judge)) as client:
        response = await client.post("/", data=SAMPLE, headers=OWN)

    text = text_of(response)
    assert "LLM judge" in text
    assert "because" in text
    assert "scripted-judge" in text
    assert "is off" not in text


async def test_json_is_read_into_the_fields() -> None:
    async with running(plain_settings()) as client:
        pasted = '{"user_input": "When?", "retrieved_contexts": ["It opened in 1931."], "response": "In 1931."}'
        judged = await client.post("/", data={"pasted": pasted, "answer": "replaced"}, headers=OWN)
        bad = await client.post("/", data={"pasted": "{"}, headers=OWN)

    assert judged.status_code == 200
    assert "In 1931." in judged.text
    assert "replaced" not in judged.text
    assert bad.status_code == 422
    assert "not JSON" in text_of(bad)


async def test_a_context_can_be_added_without_a_script() -> None:
    async with running(plain_settings()) as client:
        response = await client.post("/", data={**SAMPLE, "add_context": "1"}, headers=OWN)

    assert response.text.count('name="context"') == 2
    assert 'class="sentence' not in response.text


async def test_limits_are_those_of_the_api() -> None:
    async with running(plain_settings(max_answer_characters=10, max_contexts=1, max_body_bytes=2048)) as client:
        long = await client.post("/", data=SAMPLE, headers=OWN)
        many = await client.post("/", data={"context": ["a", "b"], "answer": "c"}, headers=OWN)
        large = await client.post("/", data={"answer": "c" * 4096}, headers=OWN)

    assert (long.status_code, many.status_code, large.status_code) == (422, 422, 413)
    assert "at most 10 characters" in text_of(long)
    assert "Contexts:" in text_of(many)
    assert "2048 bytes" in text_of(large)


@pytest.mark.parametrize("headers", load_cases("pages", "origins"))
@pytest.mark.parametrize("path", ["/", "/key"])
async def test_a_form_of_another_origin_is_refused(headers: dict[str, str], path: str) -> None:
    async with running(plain_settings()) as client:
        response = await client.post(path, data={"sample": "invented"}, headers=headers)

    assert response.status_code == 400
    assert response.json()["type"] == "urn:plumbline:problem:bad-request"


async def test_a_page_needs_the_key_that_the_api_needs(tmp_path: Path) -> None:
    secret, jobs_only = made_key(tmp_path, "all"), made_key(tmp_path, "jobs", Scope.JOBS)
    async with running(keyed_settings(tmp_path)) as client:
        without = await client.get("/", headers=OWN)
        wrong = await client.post("/key", data={"key": "wrong"}, headers=OWN)
        entered = await client.post("/key", data={"key": f" {secret} ", "next": "/?lang=zh"}, headers=OWN)
        cookie = entered.headers["set-cookie"]
        client.cookies.clear()
        within = await client.get("/", headers={**OWN, **cookie_of(secret)})
        scopeless = await client.get("/", headers={**OWN, **cookie_of(jobs_only)})
        api = await client.post("/v1/evaluations", json={"contexts": [], "answer": ""}, headers=cookie_of(secret))

    assert (without.status_code, wrong.status_code, within.status_code, scopeless.status_code) == (401, 401, 200, 403)
    assert 'name="key"' in without.text
    assert "not one of those configured" in text_of(wrong)
    assert (entered.status_code, entered.headers["location"]) == (303, "/?lang=zh")
    assert cookie.startswith(cookie_of(secret)["Cookie"])
    assert {"HttpOnly", "Path=/", "SameSite=strict"} == {part.strip() for part in cookie.split(";")[1:]}
    # No form of another page reaches the API by a cookie.
    assert api.status_code == 401


async def test_the_key_is_forgotten_and_sent_nowhere_else(tmp_path: Path) -> None:
    secret = made_key(tmp_path, "all")
    async with running(keyed_settings(tmp_path, public_url="https://host.example")) as client:
        away = await client.post("/key", data={"key": secret, "next": "//evil.example/"}, headers=OWN)
        forgotten = await client.post("/key", data={"forget": "1"}, headers=OWN)

    assert away.headers["location"] == "/"
    assert "Secure" in away.headers["set-cookie"]
    assert "Max-Age=0" in forgotten.headers["set-cookie"]


async def test_a_link_from_another_site_loads_the_page_once_more_with_the_cookie(tmp_path: Path) -> None:
    made_key(tmp_path, "all")
    async with running(keyed_settings(tmp_path)) as client:
        elsewhere = await client.get("/?lang=zh", headers={**OWN, "Sec-Fetch-Site": "cross-site"})
        here = await client.get("/?lang=zh", headers=OWN)

    assert '<meta http-equiv="refresh" content="0;url=/?lang=zh">' in elsewhere.text
    assert "http-equiv" not in here.text


async def test_requests_of_a_page_count_as_those_of_the_api(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(completion(JUDGED))
    headers = {**OWN, **cookie_of(made_key(tmp_path, "one", concurrency=1))}
    async with running(judge_settings(judge, data_dir=tmp_path)) as client:
        answers = await asyncio.gather(*(client.post("/", data=SAMPLE, headers=headers) for _ in range(2)))

    served, refused = sorted(answers, key=lambda answer: answer.status_code)
    assert (served.status_code, refused.status_code) == (200, 429)
    assert "requests of the key in flight: 1" in text_of(refused)
    assert int(refused.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("query", "accepted", "language"), [*load_cases("pages", "languages"), ("", ",;q=,zh;q=1.2.3," * 500, "zh-Hans")]
)
async def test_the_language_is_that_of_the_query_or_the_browser(query: str, accepted: str, language: str) -> None:
    async with running(plain_settings()) as client:
        page = await client.get(f"/{query}", headers={**OWN, "Accept-Language": accepted})

    assert f'<html lang="{language}">' in page.text


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_no_text_of_a_form_becomes_markup(hostile: str) -> None:
    hostile = hostile.replace("\0", "")
    async with running(plain_settings()) as client:
        plain = await client.post("/", data=SAMPLE, headers=OWN)
        sample = {"question": hostile, "context": [f"{hostile} {SAMPLE['context'][0]}"], "pasted": ""}
        page = await client.post("/", data={**SAMPLE, **sample}, headers=OWN)
        refused = await client.post("/", data={"pasted": hostile}, headers=OWN)

    assert page.status_code == 200
    assert scripts(page) == scripts(plain)
    assert refused.status_code == 422
    assert scripts(refused) == scripts(plain)


def scripts(response: httpx2.Response) -> list[tuple[str, dict[str, str]]]:
    """Elements that run, load or send, in order."""
    found = Page(response.text).elements
    return [
        (name, {key: value for key, value in attributes.items() if key.startswith("on") or key in ("src", "action")})
        for name, attributes in found
        if name in ("script", "img", "iframe", "style", "base", "meta", "link", "form", "object")
        or any(key.startswith("on") for key in attributes)
    ]


async def test_a_sentence_of_a_megabyte_is_shown_or_refused() -> None:
    long = "word " * 200_000
    async with running(plain_settings(max_answer_characters=2_000_000)) as client:
        shown = await client.post("/", files=multipart(answer=long, context="word"), headers=OWN)
    async with running(plain_settings()) as client:
        refused = await client.post("/", files=multipart(answer=long, context="word"), headers=OWN)

    assert (shown.status_code, refused.status_code) == (200, 422)


def multipart(**fields: str) -> dict[str, tuple[None, str]]:
    return {name: (None, text) for name, text in fields.items()}


async def test_pages_are_no_part_of_the_api_document() -> None:
    async with running(plain_settings()) as client:
        document: dict[str, Any] = (await client.get("/openapi.json")).json()

    assert all(
        path.startswith("/v1/") or path in ("/healthz", "/readyz", "/version", "/metrics") for path in document["paths"]
    )
