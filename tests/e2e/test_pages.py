"""The pages of a running service in a real Chromium: buttons, languages, keys, hostile texts, accessibility."""

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from plumbline.main import create_app
from plumbline.rows.jobs.store import JobStore
from tests.doubles.fakes import WordEncoder
from tests.making.job_runs import make_run, work_on
from tests.reading.report_html import HOSTILE
from tests.running.browser import WATCH, chromium
from tests.running.keyed_service import keyed_settings, made_key
from tests.running.service import plain_settings, served

T = TypeVar("T")

# `make test` puts it there where there is npm; a developer's tool, no part of the package.
AXE = Path(__file__).parents[2] / ".tools" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data") / "jobs"


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[str]:
    app = create_app(plain_settings(), encoder=WordEncoder(), store=JobStore.in_folder(folder))
    with served(app) as url:
        yield url


def run(folder: Path, rows: int, **choices: Any) -> str:
    """The id of a run that another process made."""

    async def make() -> str:
        store = JobStore.in_folder(folder)
        try:
            return (await make_run(store, rows, **choices)).id
        finally:
            await store.close()

    return elsewhere(make())


def elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a loop of its own, beside that of Playwright."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def runs(folder: Path) -> tuple[str, str]:
    """A run of 10,000 rows, and a later one of the same name by another judge, in which some rows are worse."""
    before = run(folder, 10_000, versions='{"judge": "old"}')
    hostile = [text.replace("\0", "") for text in HOSTILE]
    now = run(folder, 300, score=lambda row: 0.25 if row % 3 else 1.0, versions='{"judge": "new"}', answers=hostile)
    return before, now


@contextmanager
def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """A page; at its end nothing was asked for elsewhere, nothing hostile ran and no policy was broken."""
    context = browser.new_context(**options)
    said: list[str] = []
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.add_init_script(WATCH)
    page.goto(url)
    try:
        yield page
        origin = "/".join(url.split("/")[:3])
        assert [each for each in asked if not each.startswith((f"{origin}/", "data:"))] == []
        assert page.evaluate("[window.ran, window.violations]") == [None, []]
        # A page that is refused by its status is no error of a page's.
        assert [text for text in said if "the server responded with a status of" not in text] == []
    finally:
        context.close()


def serious_faults(browser: Any, html: str, **options: Any) -> list[str]:
    """Serious and critical faults that axe-core finds in a page; its policy would refuse the tool itself."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm install --prefix .tools axe-core@4")
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_content(html)
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    context.close()
    return [
        f"{fault['id']}: {fault['nodes'][0]['html'][:200]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(("language", "verdict"), [("en", "Not mentioned"), ("zh", "未提及")])
def test_each_sample_is_judged_by_one_click(browser: Any, service: str, language: str, verdict: str) -> None:
    with opened(browser, f"{service}/?lang={language}") as page:
        names = page.locator("button[name=sample]").evaluate_all("all => all.map(each => each.value)")
        for name in names:
            page.locator(f"button[value={name}]").click()
            page.wait_for_selector("#result")
            assert page.locator("[aria-pressed=true]").get_attribute("value") == name
            assert page.locator(".judged .sentence").count() > 0
        assert page.evaluate("document.activeElement.id") == "result"

        page.locator("button[value=invented]").click()
        invented = page.locator(".sentence.not_mentioned")
        assert verdict in invented.text_content()
        # What lacks support is open, with its reason; what has it is not.
        assert not page.locator(".sentence.supported blockquote").first.is_visible()
        assert invented.locator("mark").first.is_visible()
        assert page.locator(".context mark").count() >= 2


def test_a_sample_of_ones_own_is_judged_with_the_keyboard_alone(browser: Any, service: str) -> None:
    with opened(browser, service) as page:
        page.locator("[name=question]").focus()
        page.keyboard.type("When?")
        page.keyboard.press("Tab")
        page.keyboard.type("It opened in 1931.")
        page.locator("[name=add_context]").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("textarea[name=context] >> nth=1")
        page.locator("[name=answer]").focus()
        page.keyboard.type("It opened in 1931.")
        page.locator("button.main").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#result")

        assert f"curl -s {service}/v1/evaluations" in page.locator(".code code").first.text_content()


def test_a_pasted_sample_fills_the_form_and_a_broken_one_says_why(browser: Any, service: str) -> None:
    with opened(browser, service) as page:
        page.locator("summary", has_text="Paste a whole sample").click()
        page.locator("[name=pasted]").fill('{"query": "When?", "documents": ["In 1931."], "response": "In 1931."}')
        page.locator("button.main").click()
        page.wait_for_selector("#result")
        assert page.locator("[name=answer]").input_value() == "In 1931."

        page.locator("summary", has_text="Your sample").click()
        page.locator("summary", has_text="Paste a whole sample").click()
        page.locator("[name=pasted]").fill('{"text": 1}')
        page.locator("button.main").click()
        assert "found the columns 'text'" in page.locator("[role=alert]").text_content()


def test_nothing_hostile_runs_or_is_loaded(browser: Any, service: str) -> None:
    everything = " ".join(HOSTILE).replace("\0", "")
    with opened(browser, service) as page:
        page.locator("[name=question]").fill(everything)
        page.locator("[name=context]").fill(everything)
        page.locator("[name=answer]").fill(f"{everything} {'long' * 10_000}")
        page.locator("button.main").click()
        page.wait_for_selector("#result")
        for summary in page.locator("#result summary").all():
            summary.click()

        assert page.locator("main img, main iframe, main script, main style, a[href^=javascript]").count() == 0
        assert "⟦U+202E⟧" in page.locator("#result").text_content()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_key_is_entered_kept_and_forgotten(browser: Any, tmp_path: Path) -> None:
    secret = made_key(tmp_path, "mine")
    app = create_app(keyed_settings(tmp_path), encoder=WordEncoder())
    with served(app) as url, opened(browser, f"{url}/?lang=en") as page:
        page.locator("[name=key]").fill("wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector(".banner")
        assert "not one of those configured" in page.locator(".banner").text_content()
        page.locator("[name=key]").fill(secret)
        page.keyboard.press("Enter")
        page.locator("button[value=faithful]").click()
        page.wait_for_selector(".sentence.supported")
        assert page.evaluate("document.cookie") == ""
        assert "$PLUMBLINE_API_KEY" in page.locator(".code code").first.text_content()
        assert secret not in page.content()

        page.goto(f"{url}/key")
        page.locator("[name=forget]").click()
        page.goto(url)
        assert page.locator("[name=key]").is_visible()


def test_from_the_list_to_a_row_that_got_worse(browser: Any, service: str, runs: tuple[str, str]) -> None:
    with opened(browser, f"{service}/runs?name=nightly") as page:
        assert "judge: new" in page.locator(".runs").text_content()
        assert page.locator(".chart .changed").count() == 1
        page.locator("button.main").click()
        page.wait_for_selector(".moved")
        page.locator(".choice-link", has_text="Fails now 150").click()
        assert page.locator(".moved").count() == 20
        page.locator(".choice-link", has_text="Not mentioned 150").click()
        assert page.locator(".moved ins").first.is_visible()
        page.locator(".moved a").nth(1).click()
        page.wait_for_selector(".judged")
        page.locator(".judged summary").first.click()
        assert page.locator(".context").is_visible()
        page.locator("form button", has_text="Judge this row again").click()
        page.wait_for_selector("#result")


def test_rows_of_a_long_run_are_filtered_and_paged(browser: Any, service: str, runs: tuple[str, str]) -> None:
    with opened(browser, f"{service}/runs/{runs[0]}") as page:
        page.locator("select[name=passed]").select_option("no")
        page.locator("button", has_text="Filter").click()
        page.locator(".pager a", has_text="Next rows").click()
        page.wait_for_url("**after=196**")
        numbers = page.locator(".run-rows td:first-child a").all_text_contents()
        for key in "jjk":
            page.keyboard.press(key)
        page.keyboard.press("Enter")
        page.wait_for_url("**/rows/200**")
        page.keyboard.press("j")
        page.wait_for_url("**/rows/201**")
        page.locator("[name=person]").type("jude k")
        page.keyboard.press("Enter")
        assert page.locator("[name=person]").input_value() == "jude k"

    assert [int(each) for each in numbers] == list(range(200, 400, 4))


def test_a_run_is_watched_paused_resumed_and_cancelled(browser: Any, service: str, folder: Path) -> None:
    job_id = run(folder, 150, name="live", left=10)
    with opened(browser, f"{service}/runs/{job_id}") as page:
        assert page.locator("progress").get_attribute("value") == "140"
        page.locator("button", has_text="Pause").click()
        page.wait_for_selector("text=paused")
        page.locator("button", has_text="Resume").click()
        page.wait_for_selector("text=waiting")
        elsewhere(work_on(folder, left=5))
        page.wait_for_selector("[data-live=done]:text-is('145')")
        page.locator("button", has_text="Cancel").click()
        page.wait_for_selector("text=cancelled")
        assert page.locator("progress").count() == 0


@pytest.mark.parametrize(
    ("language", "look", "report"), [("en", ("light", 1400), "Report on this run"), ("zh", ("dark", 400), "报告")]
)
def test_from_a_file_of_200_rows_to_its_report_in_five_clicks(
    browser: Any, tmp_path: Path, language: str, look: tuple[str, int], report: str
) -> None:
    rows = [f'q{row},"Ferry {row} leaves at noon.","Ferry {row} leaves at {row % 2} pm."' for row in range(200)]
    file = tmp_path / f"answers {language}.csv"
    file.write_text("\n".join(["id,contexts,answer", *rows]), encoding="utf-8")
    options = {"viewport": {"width": look[1], "height": 800}, "color_scheme": look[0]}
    seen: list[str] = []
    app = create_app(plain_settings(data_dir=tmp_path / "data"), encoder=WordEncoder())
    with served(app) as url, opened(browser, f"{url}/?lang={language}", **options) as page:
        page.locator("nav a[href^='/runs']").click()
        page.locator("a.main").click()
        seen.append(page.content())
        with page.expect_file_chooser() as choosing:
            page.locator("input[type=file]").click()
        choosing.value.set_files(file)
        page.wait_for_url("**/runs/new/*")
        assert page.locator(".record").count() == 3
        assert page.evaluate("document.documentElement.scrollWidth") == look[1]
        seen.append(page.content())
        page.locator("button.main").click()
        page.wait_for_url("**/runs/job_*")
        # The page loads itself anew once the run is done.
        page.wait_for_selector("#state .chip.supported")
        seen.append(page.content())
        page.get_by_text(report).first.click()
        page.wait_for_url("**/report*")
        assert "q199" in page.content()

    assert [fault for html in seen for fault in serious_faults(browser, html, **options)] == []


def test_two_tabs_mark_rows_with_one_key_each(browser: Any, service: str, runs: tuple[str, str]) -> None:
    url = f"{service}/label/{runs[0]}"
    with opened(browser, url) as ann, opened(browser, url) as bob:
        for page, name, keys in ((ann, "ann", "fu1sf"), (bob, "bob", "ffff")):
            page.locator("[name=person]").fill(name)
            page.keyboard.press("Enter")
            for at, key in enumerate(keys):
                page.wait_for_selector(f"text={at} marked")
                page.keyboard.press(key)
            page.wait_for_selector(f"text={len(keys)} marked")
        ann.keyboard.press("z")
        ann.wait_for_selector("text=4 marked")
        ann.goto(url)

        text = " ".join(ann.locator("main").text_content().split())
        counts = ann.locator("section tbody").first.locator("tr").all_text_contents()
        assert counts == ["ann3", "bob4"]
        assert "Download 2 labelled rows" in text
        with ann.expect_download() as waiting:
            ann.locator("a[download]").first.click()
        assert waiting.value.suggested_filename == f"{runs[0]}.labels.jsonl"


@pytest.mark.parametrize(("language", "look"), [("en", ("light", 1280)), ("zh", ("dark", 400))])
def test_pages_fit_the_screen_and_have_no_serious_fault(
    browser: Any, service: str, runs: tuple[str, str], language: str, look: tuple[str, int]
) -> None:
    scheme, width = look
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    compared = f"/runs/compare?before={runs[0]}&now={runs[1]}&"
    paths = ["/?", "/runs?name=nightly&", f"/runs/{runs[1]}?", f"/runs/{runs[1]}/rows/4?", compared]
    paths += ["/retrieval?", "/retrieval/example?", "/label?", f"/label/{runs[0]}?", f"/label/{runs[0]}?person=eve&"]
    seen: list[str] = []
    with opened(browser, f"{service}/?lang={language}", **options) as page:
        for path in paths:
            page.goto(f"{service}{path}lang={language}")
            if path == "/?":
                page.locator("button[value=number]").click()
                page.wait_for_selector("#result")
            page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            assert page.evaluate("document.documentElement.scrollWidth") == width, path
            seen.append(page.content())

    assert [fault for html in seen for fault in serious_faults(browser, html, **options)] == []
