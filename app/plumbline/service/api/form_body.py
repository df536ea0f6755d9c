"""Bodies that are forms with files, read by python-multipart through Starlette."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from plumbline.ground.errors import InvalidInput, MalformedBody
from plumbline.ground.texts import CodedText
from plumbline.service.api.problems import printable

FORM: Final = "multipart/form-data"
# Of the parts that are no files.
_MAX_TEXT_BYTES: Final = 100_000


class Form(NamedTuple):
    files: dict[str, list[UploadFile]]
    texts: dict[str, str]


@asynccontextmanager
async def read_form(
    request: Request, *, files: Sequence[str], texts: Sequence[str] = (), max_files: int = 1, keep: Any = None
) -> AsyncIterator[Form]:
    """Yield the parts of a form, whose files are closed at the end.

    Args:
        files, texts: names of parts that are files, at most `max_files` of each, and of others, which may come once.
        keep: a writable file in which the one file is stored, in place of a temporary one.

    Raises:
        MalformedBody: it is no form, has too many parts, a text is too long, or the last boundary is missing.
        InvalidInput: a part is unknown, no file though it should be one, or comes too often.
    """
    parser = _FormParser(
        request.headers,
        request.stream(),
        max_files=len(files) * max_files + len(texts),
        max_fields=len(texts) + 1,
        max_part_size=_MAX_TEXT_BYTES,
    )
    parser.most_by_name = {**dict.fromkeys(files, max_files), **dict.fromkeys(texts, 1)}
    parser.keep_by_name = {name: keep for name in files if keep is not None}
    try:
        parts = await parser.parse()
    except MultiPartException as error:
        raise MalformedBody(CodedText("form_unreadable", reason=error.message)) from None
    async with AsyncExitStack() as stack:
        stack.push_async_callback(parts.close)
        if not parser.is_whole:
            raise MalformedBody(CodedText("form_cut"))
        form = Form({name: [] for name in files}, {})
        for name, part in parts.multi_items():
            if name in texts:
                form.texts[name] = part if isinstance(part, str) else await _read_text(part, name)
            elif isinstance(part, str):
                raise InvalidInput(CodedText("part_is_no_file"), place=f"/{name}")
            else:
                form.files[name].append(part)
        yield form


async def _read_text(part: UploadFile, name: str) -> str:
    text = await part.read(_MAX_TEXT_BYTES + 1)
    if len(text) > _MAX_TEXT_BYTES:
        raise InvalidInput(CodedText("part_too_large", limit=_MAX_TEXT_BYTES), place=f"/{name}")
    return text.decode("utf-8", errors="replace")


class _FormParser(MultiPartParser):
    """Starlette's parser, which refuses wrong parts as they arrive."""

    most_by_name: dict[str, int]
    keep_by_name: Mapping[str, Any]
    is_whole = False

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        name, upload = self._current_part.field_name, self._current_part.file
        left = self.most_by_name.get(name)
        if left is None:
            raise InvalidInput(CodedText("part_unknown", name=printable(name), names=tuple(self.most_by_name)))
        if not left:
            raise InvalidInput(CodedText("part_repeated"), place=f"/{name}")
        self.most_by_name[name] = left - 1
        if upload is not None and name in self.keep_by_name:
            upload.file.close()
            upload.file = self.keep_by_name[name]

    def on_end(self) -> None:
        self.is_whole = True
