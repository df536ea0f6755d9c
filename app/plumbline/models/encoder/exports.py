"""What was made of a model once and serves again: kept beside it, or in the user's cache, with digests."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from plumbline.models.encoder.model_files import ModelFiles, sha256_of

_MANIFEST = "manifest.json"
_FORM = 1


def export_folders(files: ModelFiles, kind: str) -> list[Path]:
    """Where an export of these weights may lie, the best place first; its name tells weights and kind."""
    name = f"plumbline-{_FORM}-{kind}-{files.digest[:16]}"
    cache = os.environ.get("XDG_CACHE_HOME")
    return [files.folder / name, *([Path(cache) / "plumbline" / name] if cache else _at_home(name))]


def read_export(folders: Sequence[Path]) -> Path | None:
    """The first of the folders that holds an export whose files are what its manifest says; None when none does."""
    return next((folder for folder in folders if _is_whole(folder)), None)


def keep_export(folders: Sequence[Path], write: Callable[[Path], None]) -> Path | None:
    """Has the files written into the first folder that can be; None when none can. Whole or not at all."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            try:
                write(draft)
                digests = {path.name: sha256_of([path]) for path in sorted(draft.iterdir())}
                (draft / _MANIFEST).write_text(json.dumps(digests, indent=1), encoding="utf-8")
                draft.chmod(0o755)
                _put(draft, folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            return read_export([folder])
    return None


def _put(draft: Path, folder: Path) -> None:
    """In place of a broken one; where another process was faster, its own stays."""
    if folder.exists() and not _is_whole(folder):
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(FileExistsError, OSError):
        draft.rename(folder)


def _is_whole(folder: Path) -> bool:
    try:
        digests = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return bool(digests) and all(sha256_of([folder / name]) == digest for name, digest in digests.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _at_home(name: str) -> list[Path]:
    try:
        return [Path.home() / ".cache" / "plumbline" / name]
    except RuntimeError:
        return []
