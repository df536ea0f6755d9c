"""The page of retrieval: files measured and compared as the API does, faults beside the form, no markup of theirs."""

from typing import Any

import httpx2
import pytest

from tests.api.test_pages import OWN, scripts, text_of
from tests.making.bad_files import BAD_FILES, BAD_TABLES, GOOD_QRELS, GOOD_RUN
from tests.reading.report_html import HOSTILE
from tests.running.service import plain_settings, running

OTHER = GOOD_RUN.replace(b"q1", b"q7")


async def send(
    client: httpx2.AsyncClient, *, qrels: bytes = GOOD_QRELS, runs: Any = (), lang: str = "en", **texts: str
) -> Any:
    files = [("qrels", ("qrels.txt", qrels)), *(("run", run) for run in runs or [("run.txt", GOOD_RUN)])]
    return await client.post(f"/retrieval?lang={lang}", files=files, data=texts, headers=OWN)


async def test_two_runs_are_measured_and_compared_as_the_api_compares_them() -> None:
    async with running(plain_settings()) as client:
        one = await send(client, measures="ndcg@10")
        two = await send(client, runs=[("first.txt", GOOD_RUN), ("second.txt", OTHER)], depth="5")
        example = await client.get("/retrieval/example", headers=OWN)
        asked = {"qrels": {"q1": {"d1": 1}}, "runs": [{"name": "a", "results": {"q1": ["d1"]}}]}
        api = (await client.post("/v1/retrieval/evaluations", json=asked)).json()

    assert [each.status_code for each in (one, two, example)] == [200] * 3
    assert "ndcg@10" in text_of(one)
    assert "Difference" not in text_of(one)
    assert "ndcg@5" in text_of(two)
    assert "first.txt" in text_of(two)
    assert "second.txt and first.txt do not differ clearly" in text_of(two)
    assert all(name in text_of(example) for name in api["runs"][0]["measures"])


@pytest.mark.parametrize("fault", [*BAD_FILES, *BAD_TABLES])
async def test_a_bad_file_is_told_beside_the_form_in_the_language_of_the_page(fault: str) -> None:
    part, content, line, said = {**BAD_FILES, **BAD_TABLES}[fault]
    files = {"qrels": content} if part == "qrels" else {"runs": [("run.txt", content)]}
    async with running(plain_settings()) as client:
        answer, chinese = await send(client, **files), await send(client, **files, lang="zh")

    assert answer.status_code == 422
    assert f"{part}.txt{line}: " in text_of(answer)
    assert said in text_of(answer)
    assert 'name="qrels"' in answer.text
    assert f"{part}.txt{line}：" in text_of(chinese)
    assert said not in text_of(chinese)


async def test_limits_and_origins_are_those_of_the_other_pages() -> None:
    async with running(plain_settings(max_retrieval_body_bytes=2048)) as client:
        large = await send(client, qrels=GOOD_QRELS * 1000)
        wrong = await send(client, measures="ndgc@10, map")
        chinese = await send(client, measures="ndgc@10, map", lang="zh")
        foreign = await client.post(
            "/retrieval", files=[("qrels", b"")], headers={"origin": "https://elsewhere.example"}
        )

    assert (large.status_code, wrong.status_code, foreign.status_code) == (413, 422, 400)
    assert "did you mean 'ndcg@10'" in text_of(wrong)
    assert "未知指标 'ndgc@10'；是否应为 'ndcg@10'？" in text_of(chinese)


@pytest.mark.parametrize("hostile", [*HOSTILE, "x" * 10_000])
async def test_no_text_of_a_file_or_a_field_becomes_markup(hostile: str) -> None:
    text = hostile.replace("\0", "")
    name = "".join(each for each in text[:2000] if each.isprintable() and each not in '\\"') + ".txt"
    async with running(plain_settings()) as client:
        shown = await send(client, runs=[(name, GOOD_RUN), ("b.txt", OTHER)])
        refused = await send(client, measures=text, depth=text)

    assert (shown.status_code, refused.status_code) == (200, 422)
    for page in (shown, refused):
        assert [name for name, _ in scripts(page)].count("script") == 1
        assert not any(name.startswith("on") for _, attributes in scripts(page) for name in attributes)
