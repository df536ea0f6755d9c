"""The plugin for pytest, run by pytest: assertions, the batch with its gate, xdist, here and against a service."""

from collections.abc import Iterator

# pytester drops modules that its runs import; httpx2 would keep the exceptions of a dropped one.
import httpcore2  # noqa: F401
import pytest

from tests.doubles.scripted_service import ScriptedService, problem, scripted
from tests.doubles.scripted_verdicts import FALSE, judge

pytest_plugins = ["pytester"]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedService]:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    with scripted(judge) as running:
        monkeypatch.setenv("PLUMBLINE_URL", running.url)
        yield running


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(tests)
    return pytester.runpytest_inprocess("-p", "plumbline.integrations.pytest_plugin", "--strict-markers", *options)


BATCH = f"""
    import pytest
    CONTEXTS = ["It is 41 metres high."]

    @pytest.mark.plumbline_batch
    @pytest.mark.parametrize("answer", ["It is 41 metres high.", "It is 41 m high.", {FALSE!r}])
    def test_answer(plumbline, answer):
        plumbline.assert_faithful(answer, CONTEXTS, question="How high is it?")
"""


def test_a_failed_assertion_shows_the_unsupported_sentence_and_its_reason(
    pytester: pytest.Pytester, service: ScriptedService
) -> None:
    tests = f"""
        def test_good(plumbline):
            plumbline.assert_faithful("It is 41 metres high.", ["It is 41 metres high."], question="How high?")

        def test_bad(plumbline):
            plumbline.assert_faithful({FALSE!r}, ["It is 41 metres high."], question="How high?")
    """

    result = run(pytester, tests)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*1 of 1 claims of the answer not supported by the contexts (faithfulness 0.00, passes from 0.50, tier llm)",
         f"*contradicted: {FALSE}", "*The context says 41."]
    )  # fmt: skip
    assert [each.json["question"] for each in service.asked] == ["How high?", "How high?"]


def test_an_answer_without_a_score_fails(pytester: pytest.Pytester, service: ScriptedService) -> None:
    result = run(pytester, "def test_it(plumbline): plumbline.assert_faithful('I do not know.', ['It is high.'])")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*not judged (abstained: the answer declines*"])


@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["alone", "xdist"])
def test_a_batch_is_judged_in_one_request_when_the_run_ends(
    pytester: pytest.Pytester, service: ScriptedService, options: tuple[str, ...]
) -> None:
    result = run(pytester, BATCH, "--plumbline-results=results.jsonl", *options)

    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*plumbline: 3 answers*", "gate passed_share: FAILED: wanted at least 1, got 0.667*",
         "gate judged: passed: wanted at least 0.95, got 1.0000 (3 of 3 rows)", "*test_answer*It is 65*#0: *"]
    )  # fmt: skip
    (asked,) = service.asked
    assert sorted(each["answer"] for each in asked.json["samples"])[-1] == FALSE
    assert len((pytester.path / "results.jsonl").read_text(encoding="utf-8").splitlines()) == 3


def test_a_batch_that_meets_its_gate_passes(pytester: pytest.Pytester, service: ScriptedService) -> None:
    pytester.makeini("[pytest]\nplumbline_gates = faithfulness=0.6")

    result = run(pytester, BATCH)

    assert result.ret == pytest.ExitCode.OK


def test_a_mistyped_gate_stops_the_run_before_its_tests(pytester: pytest.Pytester, service: ScriptedService) -> None:
    result = run(pytester, BATCH, "--plumbline-gate=faithfullness=0.8")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*did you mean faithfulness?*"])
    assert service.asked == []


def test_a_batch_that_cannot_be_judged_fails_the_run_in_one_line(
    pytester: pytest.Pytester, service: ScriptedService
) -> None:
    service.script = lambda _: problem(401, detail="no key was sent")

    result = run(pytester, BATCH)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["not judged: *no key was sent*"])


def test_answers_are_judged_in_this_process_where_no_service_is_named(
    pytester: pytest.Pytester, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLUMBLINE_URL")
    tests = """
        CONTEXTS = ["The Marlow lighthouse was built in 1887 and is 41 metres high."]

        def test_good(plumbline):
            plumbline.assert_faithful("The Marlow lighthouse was built in 1887.", CONTEXTS)

        def test_bad(plumbline):
            plumbline.assert_faithful("The Marlow lighthouse was built in 1932.", CONTEXTS)
    """

    result = run(pytester, tests, "--plumbline-tiers=lexical")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*The Marlow lighthouse was built in 1932.", "*in no context: 1932*"])
