"""A keyword index of tantivy's on disk: terms in, a searcher out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tantivy import Schema, Searcher

# The field that holds a text's place in the order in which texts came.
PLACE = "place"
# The most that tantivy lets a thread of its writer gather before it writes a segment. One thread and one segment give
# the same index for the same texts each time; memory is taken as it fills, not beforehand.
_GATHERED_BYTES = 4_293_967_294


def indexed(
    texts: Iterable[Sequence[Sequence[str]]], names: Sequence[str], folder: Path, *, with_positions: bool
) -> tuple[Searcher, Schema]:
    """An index in `folder` of texts, each the terms of every field of `names`; committed, and written to no more.

    Terms hold no white space. `with_positions`: phrases can be asked for, which takes more bytes.
    """
    from tantivy import Document, Index, SchemaBuilder, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 - an extra

    builder = SchemaBuilder()
    builder.add_unsigned_field(PLACE, fast=True)
    for name in names:
        builder.add_text_field(name, tokenizer_name="terms", index_option="position" if with_positions else "freq")
    schema = builder.build()
    index = Index(schema, path=str(folder))
    index.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())

    writer = index.writer(_GATHERED_BYTES, num_threads=1)
    for place, fields in enumerate(texts):
        document = Document()
        document.add_unsigned(PLACE, place)
        for name, terms in zip(names, fields, strict=True):
            document.add_text(name, " ".join(terms))
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index.searcher(), schema
