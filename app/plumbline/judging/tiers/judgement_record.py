"""A judgement as bytes and back: compressed JSON, read by its types. Nothing in it can run when it is read."""

import zlib
from hashlib import sha256

import msgspec
from msgspec.inspect import type_info

from plumbline.judging.text.verdicts import Judgement

# The names, types and defaults of what is written: a build whose judgements look otherwise reads none of the old ones.
RECORD_SHAPE = sha256(repr(type_info(Judgement)).encode()).hexdigest()

_DECODER = msgspec.json.Decoder(Judgement)
# Repeated field names and quotes shrink to a third or less even at the quickest level.
_QUICKEST = 1


def judgement_to_record(judgement: Judgement) -> bytes | None:
    """The judgement as bytes; None when a text of it is no Unicode (a lone surrogate that a model wrote)."""
    try:
        return zlib.compress(msgspec.json.encode(judgement), _QUICKEST)
    except UnicodeEncodeError:
        return None


def judgement_from_record(record: bytes) -> Judgement | None:
    """The judgement; None when the bytes are damaged (zlib keeps a checksum) or of another shape."""
    try:
        return _DECODER.decode(zlib.decompress(record))
    except (zlib.error, msgspec.DecodeError):
        return None
