"""Uploaded files in the data folder, until a job takes them over."""

import hashlib
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

# Since an upload was last written to: longer than reading it takes, or its sender to choose its columns.
_KEPT_SECONDS: Final = 3_600.0
_UPLOAD_NAME: Final = re.compile(r"[0-9a-f]{32}")


class Uploads:
    """Uploads in a folder; every method may raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / secrets.token_hex(16)

    def keep(self, path: Path, tenant: str) -> str:
        """Rename an upload so that `find` returns it for this tenant alone; return its name for that."""
        path.rename(path.with_name(f"{path.name}.{_tenant_mark(tenant)}"))
        return path.name

    def find(self, name: str, tenant: str) -> Path | None:
        path = self._folder / f"{name}.{_tenant_mark(tenant)}"
        return path if _UPLOAD_NAME.fullmatch(name) and path.is_file() else None

    def remove_orphans(self) -> None:
        """Remove the uploads that no job has taken for an hour."""
        for upload in self._folder.iterdir() if self._folder.exists() else ():
            with suppress(FileNotFoundError):
                if time.time() - upload.stat().st_mtime > _KEPT_SECONDS:
                    upload.unlink()


def _tenant_mark(tenant: str) -> str:
    return hashlib.sha256(tenant.encode()).hexdigest()[:16]
