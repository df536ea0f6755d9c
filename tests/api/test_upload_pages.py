"""A run that is started on a page: the file, its columns, the choices; whose file it is; what is wrong with it."""

import io
import os
import re
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plumbline.judging.text.sample import Sample
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record
from tests.api.test_pages import OWN, cookie_of, scripts, text_of
from tests.doubles.scripted_judge import ScriptedJudge
from tests.reading.report_html import HOSTILE
from tests.running.job_service import jobs_running, work
from tests.running.keyed_service import keyed_settings, made_key
from tests.running.service import judge_settings

CSV = b"first,second,third\nWhen?,The ferry leaves at noon.,The ferry leaves at noon.\nonly one\n"
NAMED = {
    "column_question": "first",
    "column_contexts": "second",
    "column_answer": "third",
    "tiers": "lexical",
}


async def only_row(store: JobStore) -> Sample:
    """The sample of the first row of the only job that waits."""
    lease = await store.lease()
    assert lease is not None
    record = (await store.rows(lease))[0].row
    assert isinstance(record, Record)
    return record.sample


async def send(client: httpx2.AsyncClient, name: str, content: bytes, **headers: Any) -> httpx2.Response:
    return await client.post("/runs/new", files={"file": (name, content)}, headers={**OWN, **headers})


def parquet() -> bytes:
    written = io.BytesIO()
    columns = {"question": ["When?"], "contexts": [["The ferry leaves at noon."]], "answer": ["It leaves at noon."]}
    pq.write_table(pa.table(columns), written)
    return written.getvalue()


FILES = {
    "answers.csv": b"question,contexts,answer\nWhen?,The ferry leaves at noon.,It leaves at noon.\n",
    "answers.jsonl": b'{"user_input": "When?", "retrieved_contexts": ["The ferry leaves at noon."], "response": "It"}',
    "answers.parquet": parquet(),
    "excel in China.csv": (
        "问题,上下文,回答,备注\nWhen?,The ferry leaves at noon.,It leaves at noon.,这座磨坊建于1890年，由当地人修建。\n"
    ).encode("gbk"),
}


@pytest.mark.parametrize("name", FILES)
async def test_a_file_is_shown_as_it_is_read_and_started_as_it_is_shown(store: JobStore, name: str) -> None:
    async with jobs_running(store) as client:
        shown = await client.get((await send(client, name, FILES[name])).headers["location"], headers=OWN)
        started = await client.post(shown.url, data={"tiers": "lexical", "name": "tonight"}, headers=OWN)
        run = await client.get(started.headers["location"], headers=OWN)
        sample = await only_row(store)

    assert shown.status_code == 200
    assert "The ferry leaves at noon." in text_of(shown)
    assert started.status_code == 303
    assert "tonight" in text_of(run)
    assert (sample.question, sample.contexts) == ("When?", ("The ferry leaves at noon.",))


async def test_columns_that_nobody_knows_are_chosen_on_the_page(store: JobStore) -> None:
    async with jobs_running(store) as client:
        shown = await client.get((await send(client, "mine.csv", CSV)).headers["location"], headers=OWN)
        looked = await client.post(shown.url, data={**NAMED, "look": "1"}, headers=OWN)
        started = await client.post(shown.url, data=NAMED, headers=OWN)
        sample = await only_row(store)

    assert "no column is known for" in text_of(shown)
    assert "second" in text_of(shown)
    assert "The ferry leaves at noon." in text_of(looked)
    assert "1 of the first 100 rows cannot be read" in text_of(looked)
    assert started.status_code == 303
    assert sample.answer == "The ferry leaves at noon."


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("answers.pdf", b"%PDF", "suffix"),
        ("answers.csv", b"", "the file is empty"),
        ("answers.parquet", b"no parquet", "cannot be read"),
        ("answers.xlsx", b"no workbook", "cannot be read"),
    ],
)
async def test_a_file_that_cannot_be_read_is_told_on_the_page(
    store: JobStore, name: str, content: bytes, said: str
) -> None:
    async with jobs_running(store) as client:
        answer = await send(client, name, content)
        if answer.status_code == 303:
            answer = await client.get(answer.headers["location"], headers=OWN)

    assert "This file cannot be read" in text_of(answer)
    assert said in text_of(answer)


async def test_a_file_is_its_senders_alone_and_kept_for_an_hour(store: JobStore, tmp_path: Path) -> None:
    settings = keyed_settings(tmp_path)
    mine, other = ({**OWN, **cookie_of(made_key(tmp_path, name))} for name in ("mine", "other"))
    async with jobs_running(store, settings) as client:
        place = (await send(client, "a.csv", FILES["answers.csv"], **mine)).headers["location"]
        seen, hidden = [(await client.get(place, headers=each)).status_code for each in (mine, other)]
        unknown = await client.get("/runs/new/..%2f..%2fkeys.json?form=csv", headers=mine)
        for upload in (tmp_path / "jobs" / "uploads").iterdir():
            os.utime(upload, (0, 0))
        await store.rescue()
        late = await client.get(place, headers=mine)

    assert (seen, hidden, unknown.status_code, late.status_code) == (200, 404, 404, 404)


async def test_what_a_judge_would_cost_stands_beside_the_start(store: JobStore, judge: ScriptedJudge) -> None:
    rows = b"".join(b'"Ferry %d leaves at noon.","Ferry %d leaves."\n' % (row, row) for row in range(250))
    said = []
    for prices in ("{}", '{"judge-1": {"input": 1, "output": 1}}'):
        async with jobs_running(store, judge_settings(judge, llm_prices=prices)) as client:
            place = (await send(client, "a.csv", b"contexts,answer\n" + rows)).headers["location"]
            said.append(text_of(await client.get(place, headers=OWN)))

    assert "The cost is not known" in said[0]
    found = re.search(r"250 rows. .* about 250 times: ([\d,]+) tokens in, ([\d,]+) out. Cost: about ([\d.]+),", said[1])
    assert found is not None
    tokens = sum(int(each.replace(",", "")) for each in found.groups()[:2])
    assert float(found[3]) == pytest.approx(tokens / 1e6, abs=1e-4)


async def test_choices_are_checked_and_kept(store: JobStore) -> None:
    async with jobs_running(store) as client:
        place = (await send(client, "a.csv", FILES["answers.csv"])).headers["location"]
        wrong = await client.post(place, data={"tiers": "auto", "max_cost": "much", "name": "mine"}, headers=OWN)
        foreign = await client.post(place, data={"tiers": "auto"}, headers={"origin": "https://elsewhere.example"})

    assert wrong.status_code == 422
    assert 'value="mine"' in wrong.text
    assert foreign.status_code == 400


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_no_text_of_an_upload_becomes_markup(store: JobStore, hostile: str) -> None:
    text = hostile.replace("\0", "").replace('"', '""')
    content = f'question,contexts,answer,"{text}"\n"{text}","{text}","{text}","{text}"\n'.encode()
    async with jobs_running(store) as client:
        sent = await send(client, "a.csv", content)
        shown = await client.get(sent.headers["location"] + "&name=%3Cscript%3E", headers=OWN)

    assert shown.status_code == 200
    assert [name for name, _ in scripts(shown)].count("script") == 1
    assert not any(name.startswith("on") for _, attributes in scripts(shown) for name in attributes)


async def test_a_started_run_is_judged(store: JobStore) -> None:
    async with jobs_running(store) as client:
        place = (await send(client, "a.csv", FILES["answers.csv"])).headers["location"]
        started = await client.post(place, data={"tiers": "lexical"}, headers=OWN)
        await work(store)
        run = await client.get(started.headers["location"], headers=OWN)

    assert "completed" in text_of(run)
