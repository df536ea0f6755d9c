"""Files over HTTP: TREC's and tables, good ones measured, bad ones refused with file and line."""

import gzip

import httpx2
import pytest

from plumbline.service.api import retrieval_answers
from tests.making.bad_files import BAD_FILES, BAD_TABLES, BOMB, GOOD_GOLD, GOOD_QRELS, GOOD_RETRIEVED, GOOD_RUN
from tests.running.edge_app import read_problem
from tests.running.service import plain_settings, running

URL = "/v1/retrieval/evaluations"
Files = list[tuple[str, tuple[str, bytes]]]


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def client(shared_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    return shared_client


def form(*, qrels: bytes = GOOD_QRELS, run: bytes = GOOD_RUN) -> Files:
    return [("qrels", ("qrels.txt", qrels)), ("run", ("run.txt", run))]


@pytest.mark.parametrize("fault", BAD_FILES)
async def test_a_bad_file_is_refused_with_its_line(client: httpx2.AsyncClient, fault: str) -> None:
    part, content, line, said = BAD_FILES[fault]

    response = await client.post(URL, files=form(**{part: content}))

    detail = read_problem(response, 422).detail
    assert detail.startswith(f"{part}.txt{line}: ")
    assert said in detail


async def test_tables_are_measured_as_a_form(client: httpx2.AsyncClient) -> None:
    options = '{"measures": ["context_recall", "mrr"], "conventions": {"preset": "seed-3"}}'

    response = await client.post(URL, files=form(qrels=GOOD_GOLD, run=GOOD_RETRIEVED), data={"options": options})

    assert response.status_code == 200, response.text
    means = {measure: each["mean"] for measure, each in response.json()["runs"][0]["measures"].items()}
    # q1: d1 of d1 and d2, first; q2: d4, second.
    assert means == {"context_recall": 0.75, "mrr": 0.75}


@pytest.mark.parametrize("fault", BAD_TABLES)
async def test_a_bad_table_is_refused_with_its_line(client: httpx2.AsyncClient, fault: str) -> None:
    part, content, line, said = BAD_TABLES[fault]
    files = form(**{"qrels": GOOD_GOLD, "run": GOOD_RETRIEVED, part: content})

    response = await client.post(URL, files=files)

    detail = read_problem(response, 422).detail
    assert detail.startswith(f"{part}.txt{line}: ")
    assert said in detail


async def test_a_gzip_bomb_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, files=form(run=BOMB))

    assert (
        "run.txt: the gzip data expands to more than 250 times of what was sent" in read_problem(response, 422).detail
    )


async def test_what_files_expand_to_is_bounded_as_a_body_is_each_and_together() -> None:
    lines = b"".join(b"q1 Q0 d%d 0 %d t\n" % (rank, -rank) for rank in range(10_000))
    packed, again = gzip.compress(lines), ("run", ("again.txt", gzip.compress(lines)))

    async with running(plain_settings(max_retrieval_body_bytes=len(lines) + len(GOOD_QRELS))) as client:
        fits = await client.post(URL, files=form(run=packed))
        large = await client.post(URL, files=form(run=gzip.compress(2 * lines)))
        two = await client.post(URL, files=[*form(run=packed), again])

    assert fits.status_code == 200
    said = read_problem(large, 413).detail
    assert f"run.txt: the gzip data expands to more than {len(lines) + len(GOOD_QRELS)} bytes" in said
    assert said.endswith("PLUMBLINE_MAX_RETRIEVAL_BODY_BYTES raises it")
    assert "again.txt: the files up to this one hold " in read_problem(two, 413).detail


async def test_rows_are_bounded(client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval_answers, "_MAX_FILE_ROWS", 3)

    response = await client.post(URL, files=form())

    assert "run.txt:4: more than 3 rows" in read_problem(response, 422).detail


async def test_a_form_over_the_limit_of_bytes_is_refused() -> None:
    async with running(plain_settings(max_retrieval_body_bytes=10_000, max_body_bytes=1_024)) as client:
        response = await client.post(URL, files=form(run=GOOD_RUN * 1_000))

    assert read_problem(response, 413).detail == (
        "the body has more than 10000 bytes, the most that is read here; `plumbline retrieval` reads "
        "files of any size; PLUMBLINE_MAX_RETRIEVAL_BODY_BYTES raises it"
    )


async def test_fifty_one_runs_are_refused(client: httpx2.AsyncClient) -> None:
    runs: Files = [("run", (f"{place}.txt", GOOD_RUN)) for place in range(51)]

    response = await client.post(URL, files=[form()[0], *runs])

    assert "more often than it may" in read_problem(response, 422).detail


async def test_an_unknown_part_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, files=[*form(), ("runs", ("more.txt", GOOD_RUN))])

    assert read_problem(response, 422).detail == "the form has a part 'runs'; expected qrels, run, options"


async def test_options_that_are_no_json_are_said_to_be_the_options(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, files=form(), data={"options": "per_query"})

    assert read_problem(response, 422).detail.startswith("options: not JSON")
