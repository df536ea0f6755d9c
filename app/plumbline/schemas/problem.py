"""Failures on the wire: RFC 9457 problem details."""

from dataclasses import dataclass

from pydantic import Field

from plumbline.schemas.wire import WireModel

FAILURE_DETAIL = "The failure was logged; quote the request id to ask about it."


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: its HTTP status, the tail of its URN and its title."""

    status: int
    slug: str
    title: str

    @property
    def urn(self) -> str:
        """The `type` of its problems."""
        return f"urn:plumbline:problem:{self.slug}"


VALIDATION = ProblemKind(422, "validation", "The request does not validate")
INTERNAL = ProblemKind(500, "internal", "Something failed on our side")


class FieldProblem(WireModel):
    """One field of the request and what was wrong with it; never its value."""

    pointer: str = Field(
        description="JSON pointer (RFC 6901) into the body; empty: the whole body, or a parameter named in `detail`.",
        examples=["/contexts/3"],
    )
    detail: str = Field(
        description="What was wrong, and the limit if there is one.",
        examples=["String should have at most 1000 characters"],
    )


class Problem(WireModel):
    """RFC 9457 problem details, sent as `application/problem+json`."""

    type: str = Field(description="URN of the kind of problem.", examples=["urn:plumbline:problem:validation"])
    title: str = Field(description="The kind of problem in words.", examples=["The request does not validate"])
    status: int = Field(description="The HTTP status, again.", examples=[422])
    detail: str = Field(description="This problem in words.", examples=["1 problem in the request"])
    instance: str = Field(description="Path of the request, percent-encoded.", examples=["/v1/evaluations"])
    request_id: str | None = Field(description="The `X-Request-ID` of this answer; null when none was given out.")
    errors: list[FieldProblem] = Field(default=[], description="The wrong fields, at most 20.")


class RowProblem(WireModel):
    """Why a sample has no result, as problem details (RFC 9457); pointers lead into the body or the row."""

    type: str = Field(examples=["urn:plumbline:problem:validation"])
    title: str = Field(examples=["The request does not validate"])
    status: int = Field(description="What a single evaluation would have answered.", examples=[422])
    detail: str = Field(examples=["1 problem in the sample"])
    errors: list[FieldProblem] = Field(default=[], description="The wrong fields, at most 20.")
