"""The Elasticsearch example as printed, by the real client, on a server that refuses what Elasticsearch would."""

import shutil
import sys
from pathlib import Path

import pytest

from plumbline.cli.main import main
from tests.doubles.scripted_elasticsearch import Refused, ScriptedElasticsearch, scripted_elasticsearch
from tests.making.cases import load_cases
from tests.making.lab_experiments import load_results

EXAMPLE = Path(__file__).parents[2] / "examples" / "elasticsearch"

pytestmark = pytest.mark.timeout(120)


def test_the_example_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "example")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "retrievers", raising=False)
    with scripted_elasticsearch() as server:
        experiment = folder / "experiment.toml"
        experiment.write_text(experiment.read_text().replace("http://localhost:9200", server.url))

        status = main(["lab", "run", str(experiment), "--quiet"])

    assert (status, capsys.readouterr().err) == (0, "")
    results = load_results(folder / "experiment")
    assert {each.name for each in results.systems} == {
        *("es-best-fields", "es-cross-fields", "es-phrase-prefix", "es-knn", "es-elser", "es-rrf", "es-linear"),
        *("bm25", "rrf"),
    }
    assert all(each.built is None or each.built.index_bytes > 0 for each in results.systems)
    kinds = {str(body["retriever"].keys()) for _, body in server.searched}
    assert kinds == {"dict_keys(['standard'])", "dict_keys(['knn'])", "dict_keys(['rrf'])", "dict_keys(['linear'])"}
    assert server.pipelines.keys() == {"plumbline-lab-elser-elser", "plumbline-lab-linear-elser"}


@pytest.mark.parametrize("retriever", load_cases("elasticsearch_example", "refused", inner=list))
def test_the_scripted_server_refuses_what_the_specification_does_not_have(retriever: dict[str, object]) -> None:
    server = ScriptedElasticsearch()
    server.documents["i"], server.mappings["i"] = {}, {}

    with pytest.raises(Refused):
        server._search("i", {"retriever": retriever, "size": 10})
