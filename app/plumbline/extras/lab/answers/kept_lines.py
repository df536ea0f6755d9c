"""Lines of JSON that are kept as they come: what was written before a process was killed is there when it goes on."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.torn_line import drop_torn_line


class KeptLines:
    """A file of lines, open for more; a line that was cut off is dropped. A context manager.

    Raises:
        InvalidInput: it cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch()
            # Unbuffered: a line is the operating system's as soon as it is written
            self._file = path.open("r+b", buffering=0)
            drop_torn_line(self._file)
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error

    def lines(self) -> Iterator[dict[str, Any]]:
        """What is there, oldest first.

        Raises:
            InvalidInput: a line is no JSON object.
        """
        decoder = msgspec.json.Decoder(dict[str, Any])
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield decoder.decode(line)
                except msgspec.MsgspecError:
                    raise InvalidInput(
                        "is no JSON; was the file edited?", place=f"{self._path.name}:{number}"
                    ) from None

    def add(self, line: dict[str, Any]) -> None:
        """One more."""
        data = memoryview(msgspec.json.encode(line) + b"\n")
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self._path.name) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._file.close()
