"""What a run was begun with, and how far it is: kept beside its results, compared before it goes on."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from plumbline.cli.score.input_file import InputFile
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import ReadPosition

_VERSION: Final = 1
_MAX_DIFFERENCES: Final = 5
_BEGINNING: Final = ReadPosition()
Choice = str | int | float | bool | list[str] | None


@dataclass(frozen=True, slots=True)
class RunState:
    """One run.

    Args:
        input: the file that is scored.
        choices: whatever changes a result, by the name under which a user knows it: options, columns, judges.
        position: where reading goes on behind a row that is written; a hint, it may be rows behind.
        is_complete: every row is written.
        result_bytes: of the results when they were complete.
    """

    input: InputFile
    choices: Mapping[str, Choice]
    position: ReadPosition = _BEGINNING
    is_complete: bool = False
    result_bytes: int = 0
    version: int = _VERSION

    def at(self, position: ReadPosition) -> "RunState":
        """The same run, further on."""
        return replace(self, position=position)

    def complete(self, result_bytes: int) -> "RunState":
        """The same run, done."""
        return replace(self, is_complete=True, result_bytes=result_bytes)


def differences(before: RunState, now: RunState) -> tuple[str, ...]:
    """A line for each thing that would make the rows of one file differ in how they were scored."""
    found = [*_input_differences(before.input, now.input)]
    for name in dict.fromkeys((*before.choices, *now.choices)):
        was, is_now = before.choices.get(name), now.choices.get(name)
        if was != is_now:
            found.append(f"{name} was {_told(was)} and is {_told(is_now)}")
    more = len(found) - _MAX_DIFFERENCES
    return (*found[:_MAX_DIFFERENCES], *([f"and {more} more"] if more > 0 else []))


def load_state(path: Path) -> RunState | None:
    """The state that was saved; None when there is none.

    Raises:
        InvalidInput: the file is no such state, or of another version.
    """
    try:
        state = msgspec.json.decode(path.read_bytes(), type=RunState)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error
    except ValueError:
        state = None
    if state is None or state.version != _VERSION:
        raise InvalidInput(
            "is no state of a run that this version can go on with; --restart begins anew", place=path.name
        )
    return state


def save_state(state: RunState, path: Path) -> None:
    """Write it so that a reader finds the old one or the new one, whole.

    Raises:
        InvalidInput: it cannot be written.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.write_bytes(msgspec.json.encode(state) + b"\n")
        os.replace(fresh, path)
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error


def _input_differences(before: InputFile, now: InputFile) -> Iterator[str]:
    if before.bytes != now.bytes:
        yield f"the input had {before.bytes} bytes and has {now.bytes}"
    elif before.digest != now.digest:
        yield "the input has other content"


def _told(value: Choice) -> str:
    if value is None:
        return "not given"
    return ",".join(value) if isinstance(value, list) else str(value)
