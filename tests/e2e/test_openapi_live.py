"""The service keeps to its OpenAPI document, asked over HTTP by Schemathesis; `make fuzz-api` does it at length."""

from pathlib import Path

import pytest

from tests.running.openapi_service import fuzzed

# Coverage of every keyword is most of it; these are drawn on top, for each operation.
EXAMPLES = 5
OPERATIONS = 19
PHASES = {"examples", "coverage", "fuzzing", "stateful"}


@pytest.mark.nightly
@pytest.mark.timeout(240)
def test_every_operation_answers_as_its_document_says(tmp_path: Path) -> None:
    run = fuzzed(tmp_path, "--max-examples", str(EXAMPLES))

    assert run.code == 0, run.output[-20_000:]
    assert (run.report["failures"], run.report["errors"]) == ([], [])
    assert run.report["operations"]["tested"] == run.report["operations"]["total"] == OPERATIONS
    assert {name for name, phase in run.report["phases"].items() if phase["status"] == "success"} == PHASES
    assert run.report["test_cases"]["generated"] > 2_000
