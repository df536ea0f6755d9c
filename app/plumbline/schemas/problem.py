"""Failures on the wire: RFC 9457 problem details."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from plumbline.ground.texts import CodedText, load_texts
from plumbline.schemas.wire import CODE, FIELDS, SparseModel

FAILURE_DETAIL = CodedText("failure_logged")
MOST_FIELD_PROBLEMS: Final = 20
_URN: Final = "urn:plumbline:problem:"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: its HTTP status, and the tail of its URN, by which it has its title."""

    status: int
    slug: str

    @property
    def title(self) -> str:
        """The kind in words; of a status that is none of ours, the words of HTTP."""
        return problem_title(self.urn) or self.slug.replace("-", " ").capitalize()

    @property
    def urn(self) -> str:
        return f"{_URN}{self.slug}"


VALIDATION = ProblemKind(422, "validation")
INTERNAL = ProblemKind(500, "internal")


def problem_title(urn: str) -> CodedText | None:
    code = "title_" + urn.removeprefix(_URN).replace("-", "_")
    return CodedText(code) if urn.startswith(_URN) and code in load_texts("en") else None


def count_problems(count: int, whole: CodedText, *, most: int = MOST_FIELD_PROBLEMS) -> CodedText:
    if count > most:
        return CodedText("first_problems", count=count, whole=whole, most=most)
    return CodedText("one_problem", whole=whole) if count == 1 else CodedText("problems", count=count, whole=whole)


def describe_invalid(error: Mapping[str, Any]) -> str:
    """Return what one error of pydantic's says: by its type, or the text of ours that stands in it.

    Types that no text of ours is of are named alone: what pydantic says of them may quote the value.
    """
    if isinstance(error["msg"], CodedText):
        return error["msg"]
    fields = error.get("ctx", {})
    if error["type"] == "literal_error" and " or " in fields["expected"]:
        expected, _, last = fields["expected"].rpartition(" or ")
        return CodedText("one_expected", expected=expected, last=last)
    try:
        return CodedText(error["type"], **fields)
    except LookupError:
        return CodedText("is_not_valid", kind=error["type"])


class FieldProblem(SparseModel):
    """One field of the request and what was wrong with it; never its value."""

    pointer: str = Field(
        description="JSON pointer (RFC 6901) into the body; empty: the whole body, or a parameter named in `detail`.",
        examples=["/contexts/3"],
    )
    detail: str = Field(
        description="What was wrong, and the limit if there is one.",
        examples=["String should have at most 1000 characters"],
    )
    detail_code: str | None = Field(default=None, description=CODE)
    detail_fields: dict[str, Any] = Field(default={}, description=FIELDS)


class RowProblem(SparseModel):
    """Why a sample has no result, as problem details (RFC 9457); pointers lead into the body or the row."""

    type: str = Field(description="URN of the kind of problem.", examples=["urn:plumbline:problem:validation"])
    title: str = Field(description="The kind of problem in words.", examples=["The request does not validate"])
    status: int = Field(description="The HTTP status; of a row, what a single evaluation would have.", examples=[422])
    detail: str = Field(description="This problem in words.", examples=["1 problem in the request"])
    detail_code: str | None = Field(default=None, description=CODE)
    detail_fields: dict[str, Any] = Field(default={}, description=FIELDS)
    errors: list[FieldProblem] = Field(default=[], description="The wrong fields, at most 20.")


class Problem(RowProblem):
    """RFC 9457 problem details, sent as `application/problem+json`."""

    instance: str = Field(description="Path of the request, percent-encoded.", examples=["/v1/evaluations"])
    request_id: str | None = Field(description="The `X-Request-ID` of this answer; null when none was given out.")
