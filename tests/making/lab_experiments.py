"""A tiny experiment on disk: six documents, four queries, two retrievers of the user's own, blends of them."""

from pathlib import Path

import msgspec

from plumbline.extras.lab.results import ExperimentResults

DOCUMENTS = {
    "d1": "wing lift drag",
    "d2": "wing slipstream lift",
    "d3": "heat slab conduction",
    "d4": "heat wing",
    "d5": "shell buckling load",
    "d6": "slab load heat",
}
QUERIES = {"q1": "wing lift", "q2": "heat slab", "q3": "buckling load", "q4": "wing heat"}
JUDGED = {
    "q1": {"d1": 1, "d2": 2},
    "q2": {"d3": 2, "d6": 1},
    "q3": {"d5": 1, "d4": 0},
    "q4": {"d4": 1},
}
# Counts shared words; `weigh` decides what a document's length takes off. It waits and fails where it is told to.
RETRIEVERS = """
import time


class Words:
    def __init__(self, weigh=0.0, build_nap=0.0, search_nap=0.0, fails="", prints=""):
        self.weigh, self.build_nap, self.search_nap = weigh, build_nap, search_nap
        self.fails, self.prints = fails, prints

    def build(self, chunks, folder):
        print(self.prints, end="")
        time.sleep(self.build_nap)
        if self.fails:
            raise RuntimeError(self.fails)
        self.chunks = [(chunk.id, chunk.text.split()) for chunk in chunks]
        (folder / "index").write_text("kept")

    def search(self, query, k):
        time.sleep(self.search_nap)
        wanted = query.split()
        scored = ((sum(words.count(each) for each in wanted), name, words) for name, words in self.chunks)
        found = [(name, count - self.weigh * len(words)) for count, name, words in scored if count]
        return sorted(found, key=lambda each: -each[1])[:k]


class Backwards(Words):
    def search(self, query, k):
        return [(name, 1.0 / (place + 1)) for place, (name, _) in enumerate(reversed(super().search(query, 100)))][:k]
"""
EXPERIMENT = """
[experiment]
measures = ["ndcg@10", "map", "precision@2"]
depth = 10

[corpus]
folder = "data"

[retrievers.words]
kind = "python"
object = "tiny_retrievers:Words"

[retrievers.short]
kind = "python"
object = "tiny_retrievers:Words"
options = { weigh = 0.3 }

[retrievers.back]
kind = "python"
object = "tiny_retrievers:Backwards"

[blends.rrf]
parts = ["words", "back"]

[blends.weighted]
parts = ["words", "short", "back"]
method = "wsum"
weights = [0.3, 0.4, 0.3]
"""


def tiny_experiment(folder: Path, text: str = EXPERIMENT) -> Path:
    """The experiment file, with its data and its retrievers beside it."""
    data = folder / "data"
    (data / "qrels").mkdir(parents=True, exist_ok=True)
    _write(
        data / "corpus.jsonl", [f'{{"_id": "{key}", "title": "", "text": "{text}"}}' for key, text in DOCUMENTS.items()]
    )
    _write(data / "queries.jsonl", [f'{{"_id": "{key}", "text": "{text}"}}' for key, text in QUERIES.items()])
    judged = [f"{query}\t{doc}\t{grade}" for query, docs in JUDGED.items() for doc, grade in docs.items()]
    _write(data / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *judged])
    (folder / "tiny_retrievers.py").write_text(RETRIEVERS, encoding="utf-8")
    path = folder / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return path


def load_results(folder: Path) -> ExperimentResults:
    return msgspec.json.decode((folder / "results.json").read_bytes(), type=ExperimentResults)


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
