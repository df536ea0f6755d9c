"""Dense search with the bundled all-MiniLM-L6-v2: meaning is found where no word is shared."""

from pathlib import Path

from plumbline.extras.lab.chunkings import Chunk
from plumbline.extras.lab.vectors import DenseSettings

TEXTS = {
    "bridge": "The Marlow Bridge was opened in 1931 and carries two railway tracks across the river Teal.",
    "cat": "Cats sleep for most of the day and hunt at dusk.",
    "bread": "Leave the dough to rise for an hour, then bake the loaf until its crust is brown.",
}


def test_the_text_that_means_it_comes_first(tmp_path: Path) -> None:
    retriever = DenseSettings().make()
    facts = retriever.build([Chunk(name, name, {"text": text}) for name, text in TEXTS.items()], tmp_path)

    found = [retriever.search(query, 3)[0][0] for query in ("feline habits", "how do I make toast from scratch")]

    assert found == ["cat", "bread"]
    assert (facts.stated["model"], facts.stated["dimensions"]) == ("all-MiniLM-L6-v2", 384)
    assert facts.stated["tokens_read"] == 256
