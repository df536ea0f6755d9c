"""A retriever under the clock: what is timed, what is collapsed, what is written; with a retriever that is scripted."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from plumbline.extras.lab.corpus import Chunk, Query
from plumbline.extras.lab.folder import load_run, write_run
from plumbline.extras.lab.measuring import RetrieverMeasurement, Tell, measure
from plumbline.extras.lab.retriever import Hits, IndexFacts
from plumbline.ground.errors import InvalidInput

NAP = 0.05
QUERIES = (Query("1", "one"), Query("2", "two"))


class Scripted:
    """Gives the hits of a script, the best k; naps where it is told to."""

    def __init__(self, script: Mapping[str, Hits], *, build_nap: float = 0, search_nap: float = 0) -> None:
        self.script = script
        self.build_nap = build_nap
        self.search_nap = search_nap
        self.asked: list[tuple[str, int]] = []
        self.is_closed = False

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        assert list(folder.iterdir()) == []
        time.sleep(self.build_nap)
        return IndexFacts(len(chunks), 0, "nothing is kept", "scripted 1", {})

    def search(self, query: str, k: int) -> Hits:
        self.asked.append((query, k))
        time.sleep(self.search_nap)
        return self.script[query][:k]

    def close(self) -> None:
        self.is_closed = True


def cut(*ids: str) -> list[Chunk]:
    return [Chunk(each, each.partition("#")[0], {"text": each}, 0, 1) for each in ids]


def measured(
    tmp_path: Path,
    make: Callable[[], Scripted],
    chunks: Sequence[Chunk],
    depth: int = 10,
    tell: Tell = lambda *_: None,
) -> RetrieverMeasurement:
    index = tmp_path / "index"
    index.mkdir()
    return measure(
        make,
        chunks=chunks,
        queries=QUERIES,
        depth=depth,
        name="c.whole.s",
        index=index,
        tell=tell,
    )


def test_a_nap_is_in_the_time_of_what_napped(tmp_path: Path) -> None:
    retriever = Scripted({"one": [("a", 1.0)], "two": [("b", 1.0)]}, build_nap=NAP, search_nap=NAP)

    def make() -> Scripted:
        time.sleep(NAP)
        return retriever

    found = measured(tmp_path, make, cut("a", "b"))

    assert set(found.milliseconds) == {"1", "2"}
    assert min(found.milliseconds.values()) >= 1_000 * NAP
    assert found.built.build_seconds >= NAP
    assert found.built.load_seconds >= NAP
    assert found.built.documents_per_second == pytest.approx(2 / found.built.build_seconds)


def test_one_call_goes_before_those_that_are_timed(tmp_path: Path) -> None:
    retriever = Scripted({"one": [("a", 1.0)], "two": [("b", 1.0)]})

    measured(tmp_path, lambda: retriever, cut("a", "b"))

    assert [query for query, _ in retriever.asked] == ["one", "one", "two"]
    assert retriever.is_closed


def test_the_best_chunk_speaks_for_its_document(tmp_path: Path) -> None:
    # by hand: a has 0.7 (a#1) over 0.2, b has 0.5, so the documents are a 0.7, b 0.5
    hits = [("a#1", 0.7), ("b#0", 0.5), ("a#0", 0.2)]
    retriever = Scripted({"one": hits, "two": []})

    found = measured(tmp_path, lambda: retriever, cut("a#0", "a#1", "b#0", "c"))

    assert found.built.documents == 3
    assert found.run.results == {"1": {"a": 0.7, "b": 0.5}, "2": {}}
    assert found.chunk_run is not None
    assert found.chunk_run.results == {"1": {"a#1": 0.7, "b#0": 0.5}, "2": {}}


def test_more_chunks_are_asked_for_until_there_are_enough_documents(tmp_path: Path) -> None:
    # 6 chunks of 3 documents: 2 for each, so 4 chunks should hold 2 documents; here they are all of a
    hits = [("a#0", 6.0), ("a#1", 5.0), ("a#2", 4.0), ("a#3", 3.0), ("b", 2.0), ("c", 1.0)]
    retriever = Scripted({"one": hits, "two": [("c", 1.0)]})

    found = measured(tmp_path, lambda: retriever, cut("a#0", "a#1", "a#2", "a#3", "b", "c"), depth=2)

    assert found.run.results == {"1": {"a": 6.0, "b": 2.0}, "2": {"c": 1.0}}
    assert retriever.asked == [("one", 4), ("one", 6), ("one", 4), ("one", 6), ("two", 4)]
    assert found.warnings == ("1 of 2 queries were asked again for more chunks, outside of their times",)


def test_there_is_no_run_of_chunks_where_nothing_was_cut(tmp_path: Path) -> None:
    found = measured(tmp_path, lambda: Scripted({"one": [("a", 1.0)], "two": []}), cut("a", "b"))

    assert found.chunk_run is None


def test_scores_are_written_to_the_last_digit_and_ties_as_trec_eval_has_them(tmp_path: Path) -> None:
    third = 1 / 3
    retriever = Scripted({"one": [("a", third), ("b", third), ("c", 0.1 + 0.2)], "two": []})

    write_run(tmp_path / "s.run", measured(tmp_path, lambda: retriever, cut("a", "b", "c"), depth=2).run)

    lines = (tmp_path / "s.run").read_text().splitlines()
    assert lines == [f"1 Q0 b 1 {third!r} c.whole.s", f"1 Q0 a 2 {third!r} c.whole.s"]
    assert load_run(tmp_path / "s.run", name="s").results == {"1": {"b": third, "a": third}}


@pytest.mark.parametrize(
    ("hits", "said"),
    [
        ([("z", 1.0)], "a chunk that was not indexed, 'z'"),
        ([("a", float("nan"))], "the score nan, 'a'"),
        ([("a", float("inf"))], "the score inf, 'a'"),
    ],
)
def test_what_cannot_be_a_run_is_refused(tmp_path: Path, hits: Hits, said: str) -> None:
    retriever = Scripted({"one": hits, "two": hits})

    with pytest.raises(InvalidInput, match=said):
        measured(tmp_path, lambda: retriever, cut("a"))

    assert retriever.is_closed


def test_a_retriever_that_finds_nothing_has_an_empty_run(tmp_path: Path) -> None:
    found = measured(tmp_path, lambda: Scripted({"one": [], "two": []}), cut("a"))

    write_run(tmp_path / "s.run", found.run)
    assert found.warnings == ("nothing was found for any query; it scores 0 wherever it counts",)
    assert load_run(tmp_path / "s.run", name="s").results == {}


def test_progress_of_a_build_is_told(tmp_path: Path) -> None:
    told: list[tuple[object, ...]] = []

    class Watched(Scripted):
        tell: Callable[[int, int], None]

        def watch(self, tell: Callable[[int, int], None]) -> None:
            self.tell = tell

        def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
            self.tell(1, 4)
            return super().build(chunks, folder)

    measured(tmp_path, lambda: Watched({"one": [], "two": []}), cut("a"), tell=lambda *said: told.append(said))

    assert ("building", 1, 4) in told
