"""The forms in which judgments and runs come as files, by the name under which a caller asks for them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, Protocol

from plumbline.retrieval.id_tables import read_reference_table, read_results_table
from plumbline.retrieval.run import Qrels, Run
from plumbline.retrieval.text_file import ReadLimits
from plumbline.retrieval.trec import read_qrels, read_run


class QrelsReader(Protocol):
    """Reads judgments; raises InvalidInput naming the file and the line."""

    def __call__(self, source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> Qrels:
        """The judgments of a file."""


class RunReader(Protocol):
    """Reads a run; raises InvalidInput naming the file and the line."""

    def __call__(self, source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> Run:
        """The run in a file."""


class FileFormat(NamedTuple):
    """How judgments are read, and how a run is."""

    read_qrels: QrelsReader
    read_run: RunReader


FILE_FORMATS: Mapping[str, FileFormat] = MappingProxyType(
    {
        "trec": FileFormat(read_qrels, read_run),
        "tables": FileFormat(read_reference_table, read_results_table),
    }
)
