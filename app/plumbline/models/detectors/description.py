"""Description of a detector: how its question is put, which number of its reply means support, and a probe."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.ground.texts import CodedText

Head = Literal["sequence", "first_token", "tokens"]
Label = int | str
_Share = Annotated[float, Field(ge=0, le=1)]
_FIELD: Final = re.compile(r"\{(question|premise|claim|count|number|text)\}")
# Of a score that a card gives: other builds of PyTorch round otherwise.
_TOLERANCE: Final = 0.01


class Probe(BaseModel, extra="forbid", frozen=True):
    """A question with its known answer: `score` within the tolerance, or bounds; all of support in [0, 1]."""

    premise: str
    claim: str
    question: str = ""
    score: _Share | None = None
    at_least: _Share | None = None
    at_most: _Share | None = None

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        if (self.score, self.at_least, self.at_most) == (None, None, None):
            raise PydanticCustomError("no_expectation", "a probe needs `score`, `at_least` or `at_most`")
        return self


# For a model whose card gives no numbers: whatever it was trained on, it tells these two apart.
_PLAIN_PROBES: Final = (
    Probe(premise="The town hall was built in 1932.", claim="The town hall was built in 1932.", at_least=0.5),
    Probe(premise="The town hall was built in 1932.", claim="The mayor sold nine horses on Sunday.", at_most=0.5),
)


class Description(BaseModel, extra="forbid", frozen=True):
    """A detector: how it is loaded, asked and read.

    Args:
        model: path or hub id.
        base: where configuration and tokenizer come from, if not from `model`; `strip`: beginning of the names of its
            weights that is left out.
        head: `sequence` classifies, `first_token` classifies by its first token, `tokens` every token of the answer.
        template: the question as one text; without it a pair of texts, made by `first` and `{claim}`.
        without_question: replaces `first` where the sample has no question.
        numbered: each passage, a line apart.
        positive: label (name or number) that means support; with `inverted` it means fault.
        contradicted: label of a claim that the passages deny.
        max_tokens: of question and premise together; `chunk_tokens`: of a premise, if less.
        probe: what it must answer before it is used.
    """

    model: str
    base: str | None = None
    strip: str = ""
    head: Head = "sequence"
    template: str | None = None
    first: str = "{premise}"
    without_question: str | None = None
    numbered: str = "{text}"
    unit: Literal["sentence", "answer"] = "sentence"
    positive: Label
    inverted: bool = False
    contradicted: Label | None = None
    max_tokens: int = Field(512, ge=32, le=131_072)
    chunk_tokens: int | None = Field(None, ge=16)
    languages: tuple[Literal["en", "zh", "other"], ...] = ()
    probe: tuple[Probe, ...] = _PLAIN_PROBES

    @model_validator(mode="after")
    def _fits_its_head(self) -> Self:
        if self.template is not None and not {"premise", "claim"} <= set(_FIELD.findall(self.template)):
            raise PydanticCustomError("template", "`template` needs `{premise}` and `{claim}`")
        if self.head == "tokens" and self.template is not None:
            raise PydanticCustomError("tokens", "head `tokens` reads a pair of texts: write `first`, not `template`")
        if self.marks_words and self.unit != "answer":
            raise PydanticCustomError("unit", 'a head that marks words needs `unit = "answer"`')
        if not self.probe:
            raise PydanticCustomError("probe", "`probe` needs a pair or more; leave it out for the plain ones")
        return self

    @property
    def marks_words(self) -> bool:
        return self.head == "tokens"

    @property
    def name(self) -> str:
        """Return the name in results and calibration files: the last part of path or id."""
        return PurePath(self.model).name

    def premise(self, passages: Sequence[str], question: str, claim: str) -> tuple[str, str | None]:
        numbered = [fill(self.numbered, number=str(number), text=text) for number, text in enumerate(passages, start=1)]
        values = {"premise": "\n".join(numbered), "question": question, "count": str(len(passages))}
        if self.template is not None:
            return fill(self.template, claim=claim, **values), None
        first = self.first if question or self.without_question is None else self.without_question
        return fill(first, **values), claim


def fill(template: str, **values: str) -> str:
    """Put the values in, once: braces in them stay."""
    return _FIELD.sub(lambda found: values.get(found[1], found[0]), template)


@cache
def shipped_descriptions() -> Mapping[str, Description]:
    raw = files("plumbline.models.detectors").joinpath("detectors.toml").read_text(encoding="utf-8")
    return {name: Description.model_validate(fields) for name, fields in tomllib.loads(raw).items()}


def find_description(requested: str, *, model: str | None = None) -> Description:
    """Return the description of a TOML file, or of a known model by its short name, path or hub id.

    `model`: path or hub id in place of the description's. Raises ConfigurationError.
    """
    shipped = shipped_descriptions()
    known = {PurePath(each.model).name.casefold(): each for each in shipped.values()} | dict(shipped)
    if requested.endswith(".toml"):
        found = read_description(Path(requested))
    elif requested.casefold() in known:
        found = known[requested.casefold()]
    elif (described := known.get(PurePath(requested).name.casefold())) is not None:
        found = described.model_copy(update={"model": requested})
    else:
        raise ConfigurationError(
            f"PLUMBLINE_DETECTOR: {requested!r} is not known; write a description (.toml) with `model` and `positive`"
        )
    return found if model is None else found.model_copy(update={"model": model})


def read_description(path: Path) -> Description:
    """Read a TOML file; raise ConfigurationError that names the file and the field."""
    try:
        return Description.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: is no TOML ({error})") from error
    except ValidationError as error:
        first: Any = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{path}: {place}{': ' if place else ''}{first['msg']}") from None


class Labels(BaseModel, frozen=True):
    """Labels as numbers: where support is read, whether it is turned round, where a denial is."""

    positive: int
    inverted: bool
    contradicted: int | None


def resolve_labels(description: Description, names: Mapping[int, str]) -> Labels:
    """Return the labels as numbers, by the names of the model's configuration; raise ConfigurationError for others."""

    def number(label: Label) -> int:
        if isinstance(label, int) and label in names:
            return label
        for each, name in names.items():
            if name.casefold() == str(label).casefold():
                return each
        listed = ", ".join(f"{each} {name}" for each, name in names.items())
        raise ConfigurationError(f"{description.name}: has no label {label!r}; its labels are {listed}")

    denied = None if description.contradicted is None else number(description.contradicted)
    return Labels(positive=number(description.positive), inverted=description.inverted, contradicted=denied)


def check_probe(description: Description, number: int, found: float) -> None:
    """Raise `detector_probe_failed`, with both numbers, for a wrong support of a pair of the probe, counted from 1."""
    probe, expected = description.probe[number - 1], None
    if probe.score is not None and not abs(found - probe.score) <= _TOLERANCE:
        expected = f"{probe.score:g} ± {_TOLERANCE:g}"
    elif probe.at_least is not None and not found >= probe.at_least:
        expected = f"at least {probe.at_least:g}"
    elif probe.at_most is not None and not found <= probe.at_most:
        expected = f"at most {probe.at_most:g}"
    if expected is not None:
        raise TierFailure(
            FailureReason.DETECTOR_PROBE_FAILED,
            CodedText("detector_probe_failed", model=description.name, found=found, number=number, expected=expected),
        )
