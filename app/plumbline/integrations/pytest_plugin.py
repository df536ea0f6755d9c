"""pytest: the fixture `plumbline`, and one gate over the answers that a run's tests collect."""

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, Final, Unpack

import pytest

if TYPE_CHECKING:
    from plumbline.client.samples import OptionFields
    from plumbline.integrations.checker import Checker
    from plumbline.rows.report.gates import CiGate
    from plumbline.schemas.evaluation import EvaluationResult
    from plumbline.schemas.report import GateOutcome

_COLLECTED: Final = pytest.StashKey[list[dict[str, Any]]]()
_CHECKER: Final = pytest.StashKey["Checker"]()
_MARKER: Final = "plumbline_batch"
# Every answer passes
_USUAL_GATES: Final = ("passed_share=1",)
_MOST_SHOWN: Final = 10


class AnswerAssertions:
    """The fixture `plumbline`: judges answers of one test."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def check(
        self, answer: str, contexts: Iterable[str], *, question: str = "", **options: "Unpack[OptionFields]"
    ) -> "EvaluationResult":
        return _checker(self._item.config).check(answer, contexts, question=question, **options)

    def assert_faithful(
        self, answer: str, contexts: Iterable[str], *, question: str = "", **options: "Unpack[OptionFields]"
    ) -> None:
        """Fail unless the answer passes; the message shows the sentences that the contexts do not support.

        In a test marked `plumbline_batch` the answer is collected instead, and judged with all others when the run
        ends. An answer without a score (declined, empty, not judged) fails, too.
        """
        __tracebackhide__ = True
        if self._item.get_closest_marker(_MARKER) is not None:
            if options:
                raise pytest.UsageError(
                    f"{_MARKER}: answers of a batch share their options; found {', '.join(options)}"
                )
            texts = [contexts] if isinstance(contexts, str) else list(contexts)
            sample = {"question": question, "contexts": texts, "answer": answer}
            self._item.stash.setdefault(_COLLECTED, []).append(sample)
            return
        from plumbline.schemas.explanation import explain  # noqa: PLC0415 - not at each start of pytest

        result = self.check(answer, contexts, question=question, **options)
        if result.passed is not True:
            raise AssertionError(explain(result))


class BatchGate:
    """Gathers the answers that tests collected, on xdist's controller too, and judges them when the run ends."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._samples: dict[str, dict[str, Any]] = {}
        self._outcomes: list[GateOutcome] = []
        self._failed: list[str] = []
        self._error: str | None = None
        specs = config.getoption("plumbline_gate") or config.getini("plumbline_gates")
        # A mistake stops the run before its tests
        self._gates = _parse_gates(specs) if specs else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the answers of a finished test; those of a repeated test replace the earlier ones."""
        for number, sample in enumerate(getattr(report, "plumbline_samples", ())):
            # A name has at most 200 characters
            name = f"{report.nodeid[-180:]}#{number}"
            self._samples[name] = {**sample, "custom_id": name}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        from plumbline.ground.errors import PlumblineError  # noqa: PLC0415

        if not self._samples:
            return
        try:
            is_passed = self._judge()
        except (PlumblineError, OSError) as error:
            self._error, is_passed = str(error), False
        if not is_passed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._samples:
            return
        terminalreporter.section(f"plumbline: {len(self._samples)} answers")
        if self._error is not None:
            terminalreporter.line(f"not judged: {self._error}", red=True)
        for each in self._outcomes:
            word = "passed" if each.passed else "FAILED"
            line = f"gate {each.name}: {word}: wanted {each.wanted}, got {each.got}"
            terminalreporter.line(line, green=each.passed, red=not each.passed)
        for text in self._failed[:_MOST_SHOWN]:
            terminalreporter.line(text)
        if len(self._failed) > _MOST_SHOWN:
            terminalreporter.line(f"and {len(self._failed) - _MOST_SHOWN} more")

    def _judge(self) -> bool:
        # Parts of a second that a run without a batch does not pay
        from plumbline.ground.files import replace_file  # noqa: PLC0415
        from plumbline.rows.report.building import ReportBuilder  # noqa: PLC0415
        from plumbline.rows.report.gates import all_passed  # noqa: PLC0415
        from plumbline.schemas.explanation import explain  # noqa: PLC0415

        config, lines = self._config, []
        builder = ReportBuilder(gates=self._gates or _parse_gates(_USUAL_GATES))
        for row in _checker(config).check_many(self._samples[name] for name in sorted(self._samples)):
            lines.append(row.to_line())
            builder.add(lines[-1])
            result, problem = row.result, row.problem
            if result is None or result.passed is not True:
                said = explain(result) if result else problem.detail if problem else ""
                self._failed.append(f"{row.custom_id}: {said}")
        self._outcomes = builder.report().summary.gates
        if (path := config.getoption("plumbline_results")) is not None:
            replace_file(config.invocation_params.dir / path, b"".join(line + b"\n" for line in lines))
        return all_passed(self._outcomes)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("plumbline", "plumbline: answers checked against their contexts")
    group.addoption("--plumbline-url", metavar="URL", help="service that judges; default: PLUMBLINE_URL, else here")
    group.addoption("--plumbline-tiers", metavar="NAMES", help="tiers in this order: llm,embedding,lexical")
    group.addoption(
        "--plumbline-gate",
        action="append",
        metavar="SCORE=SHARE",
        help="gate over all answers of tests marked plumbline_batch, repeatable; default: passed_share=1. Of the "
        "answers 95 %% must be judged unless you give judged=SHARE",
    )
    group.addoption("--plumbline-results", metavar="FILE.jsonl", help="write their results, for `plumbline report`")
    parser.addini("plumbline_gates", "gates over the answers of tests marked plumbline_batch", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; gather answers where the run is led, not on xdist's workers."""
    config.addinivalue_line("markers", f"{_MARKER}: collect the test's answers, judged together when the run ends")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(BatchGate(config), "plumbline-batch-gate")


def pytest_unconfigure(config: pytest.Config) -> None:
    if (checker := config.stash.get(_CHECKER, None)) is not None:
        checker.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the collected answers into the report, which xdist carries from its workers."""
    report = yield
    if call.when == "call" and (samples := item.stash.get(_COLLECTED, None)):
        report.plumbline_samples = samples  # type: ignore[attr-defined]
    return report


@pytest.fixture
def plumbline(request: pytest.FixtureRequest) -> AnswerAssertions:
    """Judge answers: `plumbline.assert_faithful(answer, contexts, question=...)`."""
    return AnswerAssertions(request.node)


def _parse_gates(specs: Iterable[str]) -> "tuple[CiGate, ...]":
    from plumbline.ground.errors import InvalidInput  # noqa: PLC0415 - not at each start of pytest
    from plumbline.rows.report.gates import parse_gate, with_usual  # noqa: PLC0415

    try:
        return with_usual(map(parse_gate, specs))
    except InvalidInput as error:
        raise pytest.UsageError(f"--plumbline-gate: {error}") from None


def _checker(config: pytest.Config) -> "Checker":
    from plumbline.integrations.checker import Checker  # noqa: PLC0415 - not at each start of pytest

    if (checker := config.stash.get(_CHECKER, None)) is None:
        tiers = config.getoption("plumbline_tiers")
        options: Any = {"tiers": [each.strip() for each in tiers.split(",")]} if tiers else {}
        checker = config.stash[_CHECKER] = Checker(config.getoption("plumbline_url"), **options)
    return checker
