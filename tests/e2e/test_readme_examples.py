"""Every curl of the README, run against the service with its real model, gives the output printed beneath it."""

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"/v1/evaluations .*?-d '(\{.*?\})' \|.*?```json\n(.*?)\n```", README, re.DOTALL)


@pytest.mark.parametrize(("sent", "printed"), EXAMPLES, ids=["english", "chinese"])
async def test_the_output_in_the_readme_is_the_output_of_the_service(
    real_service: httpx2.AsyncClient, sent: str, printed: str
) -> None:
    response = await real_service.post("/v1/evaluations", json=json.loads(sent))

    assert response.status_code == 200
    assert _comparable(response.json()) == _comparable(json.loads(printed))


def _comparable(value: Any) -> Any:
    """The result without timings, its numbers to three decimals: the rest is arithmetic of the machine."""
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items() if name != "seconds"}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    return round(value, 3) if isinstance(value, float) else value
