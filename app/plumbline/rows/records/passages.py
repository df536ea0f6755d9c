"""One passage of a row: a string, or an object as LangChain, LlamaIndex, Phoenix and others write it."""

from collections.abc import Mapping
from typing import Final

from plumbline.judging.text.sample import NO_LABELS, ContextLabels, Passage
from plumbline.rows.records.record import BadRow, checked_text, shown

# The field with the text when passages are objects: LangChain, LlamaIndex, DPR, Elasticsearch
_TEXT_NAMES: Final = ("text", "page_content", "content", "contents", "passage", "document.content")
# Fields with what an answer may cite a passage by.
_LABEL_NAMES: Final = {
    "id": ("id", "doc_id", "document_id", "chunk_id", "id_", "_id"),
    "title": ("title",),
    "source": ("source", "url", "file_name", "file_path"),
    "tool": ("tool",),
}
_OUR_NAMES: Final = frozenset({"text", "id", "title", "source", "tool"})
_LONGEST_LABEL: Final = 2_000
_MOST_NAMES: Final = 5
# Objects around the text of a passage: LlamaIndex, LangChain, Phoenix
_WRAPPERS: Final = ("node", "text_resource", "kwargs", "document")


def parse_passage(item: object, name: str) -> Passage:
    """Return a passage and its labels: a string, or an object of any known form with its text.

    Raises:
        BadRow: it is neither; `name` is its place.
    """
    for wrapper in _WRAPPERS:
        if isinstance(item, Mapping) and isinstance(item.get(wrapper), Mapping):
            item, name = item[wrapper], f"{name}.{wrapper}"
    if isinstance(item, Mapping):
        text_name = next((each for each in _TEXT_NAMES if isinstance(item.get(each), str)), None)
        if text_name is None:
            found = ", ".join(shown(str(each)) for each in list(item)[:_MOST_NAMES]) or "nothing"
            wanted = f"{', '.join(_TEXT_NAMES[:-1])} or {_TEXT_NAMES[-1]}"
            raise BadRow(f"{name} is an object with {found}", f"a string, or an object with its text in {wanted}")
        text = checked_text(item[text_name], f"{name}.{text_name}", "a string")
        return _labelled(
            text, item, is_ours=name.rpartition(".")[2].startswith("contexts[") and _OUR_NAMES.issuperset(item)
        )
    return checked_text(item, name, "a string"), NO_LABELS


def _labelled(text: str, item: Mapping[object, object], *, is_ours: bool) -> Passage:
    """Return a passage with its labels; the title of an object as the service takes it stands before its text."""
    metadata = item.get("metadata")
    places = (item, metadata) if isinstance(metadata, Mapping) else (item,)
    label_by_name: dict[str, str] = {}
    for field, names in _LABEL_NAMES.items():
        found = (place.get(name) for place in places for name in names)
        label = next((str(each) for each in found if isinstance(each, str | int) and str(each).strip()), None)
        if label is not None:
            label_by_name[field] = label[:_LONGEST_LABEL]
    title = label_by_name.get("title")
    lead = f"{title}\n\n" if is_ours and title and not text.startswith(title) else ""
    return lead + text, (ContextLabels(**label_by_name, lead=len(lead)) if label_by_name else NO_LABELS)
