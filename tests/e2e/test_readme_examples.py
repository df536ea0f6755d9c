"""Every curl of the READMEs and docs/how-to/results.md gives the output printed beneath it."""

import json
from typing import Any

import httpx2
import pytest

from tests.reading.generated_pages import EXAMPLE, READMES, RESULTS

WHOLE = EXAMPLE.findall(RESULTS.read_text(encoding="utf-8"))
EXCERPTS = [found for readme in READMES for found in EXAMPLE.findall(readme.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("sent", "printed"), EXCERPTS, ids=["english", "chinese"])
async def test_the_lines_in_the_readme_are_those_of_the_service(
    real_service: httpx2.AsyncClient, sent: str, printed: str
) -> None:
    result = (await real_service.post("/v1/evaluations", json=json.loads(sent))).json()

    expected = json.loads(printed)
    assert result.pop("faithfulness") == pytest.approx(expected.pop("faithfulness"), abs=0.006)
    claims = expected.pop("claims")
    assert _holds(result, expected)
    assert len(claims) == len(result["claims"])
    assert all(_holds(got, wanted) for got, wanted in zip(result["claims"], claims, strict=True))


@pytest.mark.parametrize(("sent", "printed"), WHOLE, ids=["english"])
async def test_the_whole_answer_is_the_output_of_the_service(
    real_service: httpx2.AsyncClient, sent: str, printed: str
) -> None:
    response = await real_service.post("/v1/evaluations", json=json.loads(sent))

    assert response.status_code == 200
    assert _comparable(response.json()) == _comparable(json.loads(printed))


def _holds(value: Any, part: Any) -> bool:
    """Whether the value has every field of the part, with what that has there."""
    if isinstance(value, dict) and isinstance(part, dict):
        return all(name in value and _holds(value[name], each) for name, each in part.items())
    return bool(value == part)


def _comparable(value: Any) -> Any:
    """The result without timings, its numbers to three decimals: the rest is arithmetic of the machine."""
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items() if name != "seconds"}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    return round(value, 3) if isinstance(value, float) else value
