"""Mapping of a file's columns to a sample's fields: by name, by preset, or detected from the column names."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from plumbline.ground.errors import InvalidInput, quoted

_MAX_COLUMNS_SHOWN: Final = 20
_FIELDS: Final = ("question", "contexts", "answer", "reference", "custom_id")
_NEEDED: Final = ("contexts", "answer")
_OPTIONAL: Final = ("question", "reference", "custom_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """The columns of a sample's fields; a dot reads inside an object (`body.answer`). None: no such field.

    Args:
        contexts: one column with all contexts (a list, or text as `context_texts` parses it), or a column for each.
        context_separator: separator of the contexts in one cell, where they are not a list.
    """

    answer: str
    contexts: str | tuple[str, ...]
    question: str | None = None
    reference: str | None = None
    custom_id: str | None = None
    context_separator: str | None = None

    def columns_of(self, name: str) -> tuple[str, ...]:
        """Return the columns of a field; empty if the file has none."""
        columns = getattr(self, name) or ()
        return (columns,) if isinstance(columns, str) else tuple(columns)

    def without_absent(self, found: Collection[str]) -> "ColumnMap":
        """Return the map with None for each optional column that is not among `found`."""
        question, reference, custom_id = (
            name if name and {name, name.partition(".")[0]} & set(found) else None
            for name in (self.question, self.reference, self.custom_id)
        )
        return replace(self, question=question, reference=reference, custom_id=custom_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPreset:
    """A known row format: the possible names of each field; the first one present is used.

    Args:
        marks: columns that a row of this format must have.
        note: a limit of the format, as the end of a sentence.
        lacks: columns of the format that explain why a needed one is missing, with the explanation.
        is_loose: its names stand in other formats, too: tried where none of those fits.
    """

    name: str
    answer: tuple[str, ...]
    contexts: tuple[str, ...]
    question: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    custom_id: tuple[str, ...] = ("custom_id", "id")
    marks: tuple[str, ...] = ()
    note: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)
    is_loose: bool = False

    def names_of(self, name: str) -> tuple[str, ...]:
        names: tuple[str, ...] = getattr(self, name)
        return names


# Ours comes first, the loosest last; `huggingface` is guessed only where no other format fits.
_ALL: Final = (
    ColumnPreset(
        name="plumbline", question=("question",), contexts=("contexts",), answer=("answer",), reference=("reference",)
    ),
    # https://docs.ragas.io SingleTurnSample, version 0.2 on
    ColumnPreset(
        name="ragas",
        question=("user_input",),
        contexts=("retrieved_contexts",),
        answer=("response",),
        reference=("reference",),
        lacks={"reference_contexts": "reference_contexts are the wanted passages, not the retrieved ones"},
    ),
    # ragas before 0.2; `ground_truths` is a list
    ColumnPreset(
        name="ragas_old",
        question=("question",),
        contexts=("contexts",),
        answer=("answer",),
        reference=("ground_truth", "ground_truths"),
    ),
    # https://platform.openai.com/docs/guides/batch: a line has custom_id, method, url and body; ours is the body
    ColumnPreset(
        name="openai_batch",
        question=("body.question",),
        contexts=("body.contexts",),
        answer=("body.answer",),
        reference=("body.reference",),
        custom_id=("custom_id",),
        marks=("body",),
        lacks={"body.messages": "body is a chat request; it should be a request of POST /v1/evaluations"},
    ),
    # Seed 3's result tables: LiveRAG's columns, lists as pandas prints them
    ColumnPreset(
        name="seed_3",
        question=("question",),
        contexts=("context", "contexts"),
        answer=("answer",),
        reference=("reference", "ground_truth"),
        custom_id=("qid",),
        marks=("qid",),
        lacks={
            "doc_ids": "doc_ids name the passages but hold no text",
            "document_ids": "document_ids name the wanted passages but hold no text",
        },
    ),
    # LettuceDetect's HallucinationSample: the prompt holds the passages and the question
    ColumnPreset(
        name="lettucedetect",
        contexts=("prompt",),
        answer=("answer",),
        marks=("prompt", "labels"),
        note="the whole prompt is the only context and the question stays in it; labels are kept as an extra",
    ),
    # LLMTestCase, as its dataset writes it: snake case in JSON of Python, camel case in exports of its site
    ColumnPreset(
        name="deepeval",
        question=("input",),
        contexts=("retrieval_context", "retrievalContext"),
        answer=("actual_output", "actualOutput"),
        reference=("expected_output", "expectedOutput"),
        custom_id=("custom_id", "id", "name"),
        lacks={"context": "its context is the wanted one, not the retrieved one"},
    ),
    # RetrievalQA with return_source_documents, and kin
    ColumnPreset(
        name="langchain",
        question=("query", "question", "input"),
        contexts=("source_documents",),
        answer=("result", "answer", "output"),
    ),
    # create_retrieval_chain
    ColumnPreset(
        name="langchain_chain",
        question=("input",),
        contexts=("context",),
        answer=("answer",),
        marks=("input",),
    ),
    # A Response with its nodes; the question is one's own to add
    ColumnPreset(
        name="llamaindex",
        question=("query", "question", "query_str"),
        contexts=("source_nodes",),
        answer=("response", "answer"),
    ),
    # PatronusAI/HaluBench
    ColumnPreset(name="halubench", question=("question",), contexts=("passage",), answer=("answer",)),
    # pminervini/HaluEval; its own files have two answers a row
    ColumnPreset(
        name="halueval",
        question=("question", "user_query"),
        contexts=("knowledge",),
        answer=("answer", "chatgpt_response"),
        lacks={
            "right_answer": "each row has two answers: answer=right_answer or answer=hallucinated_answer",
            "right_response": "each row has two answers: answer=right_response or answer=hallucinated_response",
            "right_summary": "each row has two answers: answer=right_summary or answer=hallucinated_summary",
        },
    ),
    ColumnPreset(
        name="phoenix",
        question=("attributes.input.value", "input"),
        contexts=("attributes.retrieval.documents", "documents", "reference"),
        answer=("attributes.output.value", "output"),
        custom_id=("context.span_id", "span_id"),
        marks=("context.span_id",),
        is_loose=True,
    ),
    # Traces, observations and data set runs
    ColumnPreset(
        name="langfuse",
        question=("input.question", "input.query", "input.input", "input"),
        contexts=tuple(
            f"{place}{name}"
            for place in ("", "input.", "metadata.", "output.")
            for name in ("contexts", "context", "documents", "source_documents", "retrieved_contexts")
        ),
        answer=("output.answer", "output.response", "output.result", "output.output", "output"),
        reference=("expected_output", "expectedOutput"),
        marks=("input", "output"),
        is_loose=True,
    ),
    # Items of OpenAI's evals with a sample of the model
    ColumnPreset(
        name="openai_evals",
        question=("item.question", "item.query", "item.input"),
        contexts=("item.contexts", "item.context", "item.documents"),
        answer=("sample.output_text",),
        reference=("item.reference", "item.ground_truth", "item.ideal", "item.answer"),
        custom_id=("id", "item.id"),
        marks=("item", "sample"),
        is_loose=True,
    ),
    # Chat messages in any provider's format, read by `parse_conversation`
    ColumnPreset(
        name="conversation",
        contexts=("contexts", "context", "messages"),
        answer=("messages",),
        reference=("reference",),
        marks=("messages",),
        note="each answer is judged by what came before it; preset chat judges the last one alone",
        is_loose=True,
    ),
    # Chat messages: the last question and answer, and what tools returned
    ColumnPreset(
        name="chat",
        question=("messages.user",),
        contexts=("contexts", "context", "messages.tool"),
        answer=("messages.assistant",),
        marks=("messages",),
        lacks={
            "messages.system": "the last answer is judged by what tools returned; contexts=messages.system reads "
            "the system prompt as one"
        },
        is_loose=True,
    ),
    ColumnPreset(
        name="huggingface",
        question=("question", "query", "user_input", "user_query", *("问题", "提问", "用户问题", "查询")),
        contexts=(
            *("contexts", "context", "retrieved_contexts", "passages", "documents", "ctxs", "retrieved_documents"),
            *("上下文", "参考资料", "检索内容", "检索结果", "资料", "文档", "知识", "召回内容"),
        ),
        answer=(
            *("answer", "response", "generated_answer", "model_answer", "prediction", "output"),
            *("回答", "答案", "模型回答", "回复", "答复", "生成答案"),
        ),
        reference=(
            *("reference", "ground_truth", "ground_truths", "reference_answer", "gold_answer", "expected_answer"),
            *("参考答案", "标准答案", "正确答案"),
        ),
        custom_id=(
            *("custom_id", "id", "_id", "qid", "question_id", "query_id", "example_id"),
            *("编号", "序号", "样本编号"),
        ),
        lacks={
            "answers": "answers are the right ones, not one to judge",
            **dict.fromkeys(("resourceSpans", "traceId"), "these are spans: preset openinference or otel_genai"),
        },
    ),
)
# Spans, of which `TraceRows` makes rows; never guessed
_OF_TRACES: Final = tuple(
    ColumnPreset(
        name=name, question=("question",), contexts=("contexts",), answer=("answer",), note="one row for each trace"
    )
    for name in ("openinference", "otel_genai", "otlp")
)
TRACE_PRESETS: Final = frozenset(preset.name for preset in _OF_TRACES)
PRESETS: Final[Mapping[str, ColumnPreset]] = MappingProxyType({preset.name: preset for preset in (*_ALL, *_OF_TRACES)})


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """A column map and one line that explains the choice."""

    map: ColumnMap
    explanation: str


def check_columns(columns: ColumnMap, found: Iterable[str] | None) -> ChosenColumns:
    """Check a caller's own map against the columns of a table (None: rows name their own fields).

    Raises:
        InvalidInput: a column is not in the table.
    """
    if found is not None:
        found = list(found)
        for name in _FIELDS:
            for column in columns.columns_of(name):
                if column not in found and column.partition(".")[0] not in found:
                    raise InvalidInput(f"has no column {quoted(column)} for {name}; {_listed(found)}")
    return ChosenColumns(columns, f"columns as named: {_described(columns)}")


def apply_preset(name: str, found: Iterable[str]) -> ChosenColumns:
    """Return the columns that a preset reads from a file with the columns `found`.

    Raises:
        InvalidInput: there is no such preset, or the file lacks a column that it needs.
    """
    preset = PRESETS.get(name)
    if preset is None:
        raise InvalidInput(f"there is no preset {quoted(name)}; expected one of {', '.join(PRESETS)}")
    found = list(found)
    chosen = _filled(preset, found)
    for needed in _NEEDED:
        if needed not in chosen:
            names = " or ".join(quoted(column) for column in preset.names_of(needed))
            why = "".join(f"; {said}" for column, said in preset.lacks.items() if column in found)
            raise InvalidInput(f"preset {name} needs {names} for {needed}{why}; {_listed(found)}; {_HOW_TO_NAME}")
    return _choice(preset, chosen)


def detect_columns(found: Iterable[str]) -> ChosenColumns:
    """Return the columns of the preset that fits these names.

    Raises:
        InvalidInput: none fits, or several do and disagree; the message lists the columns and how to name them.
    """
    found = list(found)
    marked = [(preset, _filled(preset, found)) for preset in _ALL[:-1] if set(preset.marks) <= set(found)]
    fits = [(preset, chosen) for preset, chosen in marked if all(name in chosen for name in _NEEDED)]
    fitting = [each for each in fits if not each[0].is_loose] or fits[:1]
    if not fitting:
        return _guessed(found)
    _refuse_conflicts(fitting, found)
    # max takes the first of equals: ours
    return _choice(*max(fitting, key=lambda each: len(each[1]) + len(each[0].marks)))


def _guessed(found: list[str]) -> ChosenColumns:
    """Return columns by common spellings in any case (preset `huggingface`)."""
    preset = _ALL[-1]
    spelled = {column.strip().lower().replace(" ", "_"): column for column in reversed(found)}
    chosen = {}
    for name in _FIELDS:
        present = [spelled[spelling] for spelling in preset.names_of(name) if spelling in spelled]
        if len(present) > 1 and name != "custom_id":
            several = " and ".join(quoted(column) for column in present)
            raise InvalidInput(f"{name} could be {several}; {_listed(found)}; {_HOW_TO_NAME}")
        if present:
            chosen[name] = present[0]
    missing = [name for name in _NEEDED if name not in chosen]
    if missing:
        why = {said for each in _ALL for column, said in each.lacks.items() if column in found}
        reasons = "".join(f"; {said}" for said in sorted(why))
        raise InvalidInput(f"no column is known for {' and '.join(missing)}{reasons}; {_listed(found)}; {_HOW_TO_NAME}")
    return _choice(preset, chosen)


def _filled(preset: ColumnPreset, found: list[str]) -> dict[str, str]:
    pairs = ((name, next((each for each in preset.names_of(name) if each in found), None)) for name in _FIELDS)
    return {name: column for name, column in pairs if column is not None}


def _refuse_conflicts(fitting: list[tuple[ColumnPreset, dict[str, str]]], found: list[str]) -> None:
    for name in _FIELDS[:-1]:
        # The first preset of several that agree: ours
        preset_by_column = {chosen[name]: preset.name for preset, chosen in reversed(fitting) if name in chosen}
        if len(preset_by_column) > 1:
            several = " and ".join(f"{quoted(column)} ({preset})" for column, preset in preset_by_column.items())
            raise InvalidInput(f"{name} could be {several}; {_listed(found)}; {_HOW_TO_NAME}")


def _choice(preset: ColumnPreset, chosen: Mapping[str, str]) -> ChosenColumns:
    # A later row may have a field that this one lacks
    usual = {name: preset.names_of(name)[0] for name in _OPTIONAL if preset.names_of(name)}
    map_ = ColumnMap(**{**usual, **chosen})
    note = f"; {preset.note}" if preset.note else ""
    return ChosenColumns(map_, f"read as {preset.name}: {_described(map_, chosen)}{note}")


def _described(map_: ColumnMap, present: Iterable[str] = _FIELDS) -> str:
    named = [(name, map_.columns_of(name)) for name in _FIELDS if name in present]
    parts = [f"{name} from {', '.join(quoted(column) for column in columns)}" for name, columns in named if columns]
    if "custom_id" not in present or map_.custom_id is None:
        parts.append("custom_id from the row number")
    return "; ".join(parts)


def _listed(found: list[str]) -> str:
    names = ", ".join(quoted(column) for column in found[:_MAX_COLUMNS_SHOWN])
    more = f" and {len(found) - _MAX_COLUMNS_SHOWN} more" if len(found) > _MAX_COLUMNS_SHOWN else ""
    return f"found the columns {names}{more}" if found else "found no column"


_HOW_TO_NAME: Final = "name yours: contexts=..., answer=... (and question=, reference=, custom_id=)"
