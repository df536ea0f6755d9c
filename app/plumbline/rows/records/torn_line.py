"""What a killed process leaves at the end of a file of lines."""

import os
from typing import BinaryIO, Final

_BLOCK_BYTES: Final = 64 * 1024


def drop_torn_line(file: BinaryIO) -> None:
    """Cut off what stands behind the last line end, and leave the file at its end."""
    end = size = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    file.seek(end)
