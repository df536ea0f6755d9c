"""Files that an experiment names: found by path or pattern, read whole as UTF-8."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.run import Qrels
from plumbline.retrieval.text_file import ReadLimits
from plumbline.retrieval.trec import read_qrels
from plumbline.rows.records.text_lines import ByteStream

# One path or pattern, or several.
Paths = str | tuple[str, ...]

_BLOCK_BYTES: Final = 1024 * 1024
# Of judgments: bounds for a file that is none, not for users; as `plumbline evaluate` has them.
_QRELS_LIMITS: Final = ReadLimits(max_bytes=8_000_000_000, max_rows=200_000_000)


def found_files(paths: Paths, base: Path) -> Sequence[Path]:
    """The files that are named, each once: those of a pattern (`*`, `?`, `[..]`, `**`) in order of their names.

    Raises:
        InvalidInput: a path is no file, or no file fits a pattern.
    """
    found: dict[Path, None] = {}
    for named in (paths,) if isinstance(paths, str) else paths:
        path = base / named
        if path.is_file():
            found[path] = None
        elif glob.has_magic(named):
            fitting = sorted(base / name for name in glob.glob(named, root_dir=base, recursive=True))
            files = [each for each in fitting if each.is_file()]
            if not files:
                raise InvalidInput(f"no file fits the pattern, looked for in {str(base)!r}", place=named)
            found.update(dict.fromkeys(files))
        else:
            raise InvalidInput(f"no such file, looked for in {str(base)!r}", place=named)
    return tuple(found)


def file_text(path: Path, *, name: str | None = None) -> str:
    """All of a file, plain or gzip, without a byte-order mark, line ends as they are.

    Args:
        name: what errors call it; the file's own name when None.

    Raises:
        InvalidInput: it cannot be opened, is broken gzip, holds NUL, or is not UTF-8; then with the offset in bytes.
    """
    name = name or path.name
    try:
        stream = ByteStream(path)
        try:
            begins_at = stream.offset
            data = b"".join(iter(lambda: stream.read(_BLOCK_BYTES), b""))
        finally:
            stream.close()
    except InvalidInput as error:
        raise InvalidInput(error.detail, place=name) from error
    nul = data.find(b"\0")
    if nul >= 0:
        raise InvalidInput(f"holds NUL at byte {begins_at + nul}; expected text as UTF-8", place=name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        detail = f"is not UTF-8 at byte {begins_at + error.start}; save the file as UTF-8"
        raise InvalidInput(detail, place=f"{name}:{line}") from error


def judgments(path: str, base: Path) -> Qrels:
    """Judgments in TREC's four columns, or a table with the header `query-id corpus-id score`; plain or gzip.

    Raises:
        InvalidInput: the file is missing, or as `read_qrels`.
    """
    file = base / path
    try:
        with file.open("rb") as stream:
            return read_qrels(stream, name=file.name, limits=_QRELS_LIMITS)
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=file.name) from error
