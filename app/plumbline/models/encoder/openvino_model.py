"""The same network run by OpenVINO: converted once from PyTorch's, kept near the model, loaded without PyTorch."""

import json
import threading
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from plumbline.models.encoder.model_files import ModelFiles, export_folders, keep_export, not_loaded, read_export
from plumbline.models.encoder.packing import PROBE, PackedBatch, Precision, RowSlot, pack_batch
from plumbline.models.encoder.text_reader import TextReader

if TYPE_CHECKING:
    from openvino import CompiledModel, Model

    from plumbline.models.encoder.torch_model import TorchModel

_GRAPH, _TOKENIZER, _FACTS = "network.xml", "tokenizer.json", "facts.json"
_PRECISIONS: dict[Precision, Literal["f32", "bf16"]] = {"fp32": "f32", "bf16": "bf16"}


@dataclass(frozen=True, slots=True)
class _Facts:
    special: list[int]
    unknown: int | None
    most: int | None
    position_offset: int


class OpenVinoModel:
    """A `TokenModel` on the CPU, for `threads` that call `forward`; fp32 where the processor has no bf16.

    Raises TierFailure `not_installed`, also where texts of this model must not share a row.
    """

    supports_packing = True

    def __init__(self, files: ModelFiles, precision: Precision, *, threads: int) -> None:
        import openvino  # noqa: PLC0415

        version = openvino.__version__.partition("-")[0]
        folders = export_folders(files, f"openvino-{version}")
        kept = read_export(folders)
        network, definition, self._facts = _read(kept) if kept else _convert(files, folders)
        self.digest, facts = files.digest, self._facts
        self.reader = TextReader(
            definition, special=facts.special, unknown=facts.unknown, most=facts.most, prefix=files.prefix
        )
        self._compiled: CompiledModel = openvino.Core().compile_model(
            network,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": _PRECISIONS[precision],
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": threads,
                "ENABLE_CPU_PINNING": False,
            },
        )
        self._requests = threading.local()
        self.backend = f"openvino {version} cpu {precision}"
        # Before there are threads: two that convert their first arrays at one time wait for each other for ever, each
        # for a lock of the bindings' that the other holds (seen with 2026.4.1).
        self._run_once()

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        """Return vectors as `TokenModel` says; the thread's next call overwrites the array."""
        request = getattr(self._requests, "request", None)
        if request is None:
            request = self._requests.request = self._compiled.create_infer_request()
        inputs = [batch.tokens, batch.positions + self._facts.position_offset, batch.may_see()]
        vectors: NDArray[np.float32] = request.infer(inputs, share_inputs=True, share_outputs=True)[0]
        return vectors

    def _run_once(self) -> None:
        tokens = list(self.reader.read(PROBE[:1]).tokens[0])
        self.forward(pack_batch([tokens], [RowSlot(0, 0, len(tokens))])).copy()
        # The request of this thread is of no use to another.
        del self._requests.request


def _read(folder: Path) -> "tuple[Model, str, _Facts]":
    from openvino import Core  # noqa: PLC0415

    facts = _Facts(**json.loads((folder / _FACTS).read_text(encoding="utf-8")))
    return Core().read_model(folder / _GRAPH), (folder / _TOKENIZER).read_text(encoding="utf-8"), facts


def _convert(files: ModelFiles, folders: list[Path]) -> "tuple[Model, str, _Facts]":
    from openvino import save_model  # noqa: PLC0415

    from plumbline.models.encoder.torch_model import TorchModel  # noqa: PLC0415

    loaded = TorchModel(files, "fp32")
    if loaded.position_offset is None:
        raise not_loaded(files.folder, "its texts must not share a row, so OpenVINO does not run it")
    reader = loaded.reader
    facts = _Facts(sorted(reader.special), reader.unknown, reader.most, loaded.position_offset)
    network = _graph_of(loaded)

    def write(folder: Path) -> None:
        save_model(network, folder / _GRAPH, compress_to_fp16=False)
        (folder / _TOKENIZER).write_text(reader.definition, encoding="utf-8")
        (folder / _FACTS).write_text(json.dumps(asdict(facts)), encoding="utf-8")

    kept = keep_export(folders, write)
    # Read again, so that what runs is what was kept, and PyTorch's copy of the weights can go.
    return _read(kept) if kept else (network, reader.definition, facts)


def _graph_of(loaded: "TorchModel") -> "Model":
    """Convert through the front end itself: the converter's command line reports its use to its maker."""
    import torch  # noqa: PLC0415
    from openvino import PartialShape  # noqa: PLC0415
    from openvino.frontend import FrontEndManager  # noqa: PLC0415
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder  # noqa: PLC0415

    class UnitVectors(torch.nn.Module):  # type: ignore[misc]  # their types are not read
        def __init__(self, network: Any) -> None:
            super().__init__()
            self.network = network

        def forward(self, tokens: Any, positions: Any, may_see: Any) -> Any:
            found = self.network(input_ids=tokens, position_ids=positions, attention_mask=may_see)
            return torch.nn.functional.normalize(found.last_hidden_state, dim=-1)

    text = list(loaded.reader.read(PROBE[1:2]).tokens[0])
    batch = pack_batch([text, text], [RowSlot(0, 0, len(text)), RowSlot(1, 0, len(text))])
    arrays = (batch.tokens, batch.positions + (loaded.position_offset or 0), batch.may_see())
    example = tuple(torch.from_numpy(array) for array in arrays)
    with torch.inference_mode(), warnings.catch_warnings():
        # A trace warns of every branch that it takes for good.
        warnings.simplefilter("ignore")
        decoder = TorchScriptPythonDecoder(UnitVectors(loaded.network), example_input=example)
        front_end = FrontEndManager().load_by_framework("pytorch")
        graph: Model = front_end.convert(front_end.load(decoder))
    shapes = ([-1, -1], [-1, -1], [-1, 1, -1, -1])
    graph.reshape({each: PartialShape(shape) for each, shape in zip(graph.inputs, shapes, strict=True)})
    return graph
