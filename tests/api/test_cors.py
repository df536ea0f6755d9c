"""Pages of other origins: no browser lets them read a response unless a setting names them."""

import httpx2
import pytest

from tests.running.service import URL, plain_settings, running

ORIGIN = "https://app.example"
KEY = "key-for-the-cors-tests"
SAMPLE = {"contexts": ["A lake."], "answer": "A lake.", "tiers": ["lexical"]}
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


def allowed(response: httpx2.Response) -> str | None:
    return response.headers.get("access-control-allow-origin")


async def test_no_origin_is_allowed_by_default() -> None:
    async with running(plain_settings()) as client:
        response = await client.post(URL, json=SAMPLE, headers={"Origin": ORIGIN})

    assert (response.status_code, allowed(response)) == (200, None)


@pytest.mark.parametrize("origins", [(ORIGIN, "http://127.0.0.1:3000"), ("*",)])
async def test_a_named_origin_may_ask_and_read_failures_too(origins: tuple[str, ...]) -> None:
    settings = plain_settings(cors_origins=origins, api_keys=(KEY,))

    async with running(settings) as client:
        preflight = await client.request("OPTIONS", URL, headers=PREFLIGHT)
        headers = {"Origin": ORIGIN, "Authorization": f"Bearer {KEY}"}
        answer = await client.post(URL, json=SAMPLE, headers=headers)
        refused = await client.post(URL, json=SAMPLE, headers={"Origin": ORIGIN})

    assert (preflight.status_code, answer.status_code, refused.status_code) == (200, 200, 401)
    assert {allowed(each) for each in (preflight, answer, refused)} == {"*" if origins == ("*",) else ORIGIN}
    assert "access-control-allow-credentials" not in answer.headers


async def test_another_origin_is_not_allowed() -> None:
    async with running(plain_settings(cors_origins=(ORIGIN,))) as client:
        headers = {"Origin": "https://other.example"}
        preflight = await client.request("OPTIONS", URL, headers={**PREFLIGHT, **headers})
        answer = await client.post(URL, json=SAMPLE, headers=headers)

    assert (allowed(preflight), allowed(answer)) == (None, None)
