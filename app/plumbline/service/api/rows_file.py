"""A file that rows are written to while they arrive; nothing stays of it unless its rows are taken."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from plumbline.ground.errors import StoreUnavailable
from plumbline.rows.jobs.store import JobStore


class RowsFile:
    """One upload, of `size` bytes by now. Its methods wait for the disk: call them in a thread.

    Raises:
        StoreUnavailable: the disk is full or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._digest = hashlib.sha256()
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise _unavailable(error) from error

    def write(self, data: bytes) -> None:
        """Adds bytes."""
        self._digest.update(data)
        self.size += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise _unavailable(error) from error

    def finish(self) -> str:
        """Closes the file; SHA-256 of what is in it, in hexadecimal digits."""
        try:
            self._file.close()
        except OSError as error:
            raise _unavailable(error) from error
        return self._digest.hexdigest()

    def abandon(self) -> None:
        """Removes the file, also while it is written to or when somebody has moved it."""
        try:
            self._file.close()
        except OSError:
            # what could not be written need not be
            pass
        finally:
            self.path.unlink(missing_ok=True)


@asynccontextmanager
async def rows_file(store: JobStore) -> AsyncIterator[RowsFile]:
    """A new file of the store; removed when the block fails or is cancelled."""
    file = await asyncio.to_thread(lambda: RowsFile(store.new_upload()))
    try:
        yield file
    except BaseException:
        await asyncio.shield(asyncio.to_thread(file.abandon))
        raise


def _unavailable(error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"the rows cannot be kept ({error.strerror or type(error).__name__}); try again")
