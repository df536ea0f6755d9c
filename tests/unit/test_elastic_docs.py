"""The examples of docs/lab.md that name a server are settings as they stand."""

import re
import tomllib
from pathlib import Path

from pydantic import TypeAdapter

from plumbline.extras.lab.retrievers.elastic import ElasticRetriever

PAGE = Path(__file__).parents[2] / "docs" / "lab.md"


def test_every_example_of_a_server_is_read() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    tables = [table for block in blocks for table in tomllib.loads(block).get("retrievers", {}).values()]
    asked = [table for table in tables if table["kind"] == "elasticsearch"]

    read = [TypeAdapter(ElasticRetriever).validate_python(table) for table in asked]

    assert {settings.query for settings in read} == {"best_fields", "sparse_vector", "knn"}
