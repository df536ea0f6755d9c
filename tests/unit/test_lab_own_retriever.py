"""A retriever of the user's own: what is there is made, and what is not is said."""

import sys
from pathlib import Path

import pytest

from plumbline.extras.lab.retriever import OwnRetriever
from plumbline.ground.errors import InvalidInput

MODULE = """
class Good:
    def __init__(self, size=1):
        self.size = size
    def build(self, chunks, folder): ...
    def search(self, query, k): ...
    def close(self): ...

class Half:
    def build(self, chunks, folder): ...
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_module.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "needs_more.py").write_text("import no_such_package\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_module", raising=False)


def test_it_is_called_with_its_options() -> None:
    made = OwnRetriever(object="own_module:Good", options={"size": 3}).make()

    assert vars(made) == {"size": 3}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("gone:Good", {}, "object: there is no module 'gone'; expected a module next to the experiment file"),
        ("needs_more:Good", {}, "object: there is no module 'no_such_package'"),
        ("own_module:Better", {}, "object: module 'own_module' has no 'Better'"),
        ("own_module:Good", {"sice": 3}, "options: Good does not take these options: "),
        ("own_module:Half", {}, "object: Half has no search and no close"),
    ],
)
def test_what_is_not_there_is_said(name: str, options: dict[str, int], said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        OwnRetriever(object=name, options=options).make()

    assert str(raised.value).startswith(said)
