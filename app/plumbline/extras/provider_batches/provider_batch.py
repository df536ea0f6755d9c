"""A batch at a provider and the replies in its files: what those who send them and those who read them share."""

from collections.abc import Mapping
from typing import Final, NamedTuple

ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})


class BatchInfo(NamedTuple):
    """What the provider says of a batch.

    `status` is its word in lower case; one of `ENDED` does not change any more. The files are None until they are
    there, and where there is none. `errors` are codes and numbers of lines, never a text.
    """

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()


class Question(NamedTuple):
    """One request to a chat model as it stands in a batch file: its body, and what it will take at most, in tokens."""

    body: Mapping[str, object]
    prompt_tokens: int
    max_output_tokens: int


class BatchReply(NamedTuple):
    """The reply to a question as a batch's files have it: the HTTP status that it would have come with, its body."""

    request_id: str
    status_code: int
    body: bytes
