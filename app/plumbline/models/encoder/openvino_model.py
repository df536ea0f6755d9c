"""The same network run by OpenVINO: converted once from PyTorch's, kept near the model, loaded without PyTorch."""

import json
import shutil
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import sha256_of
from plumbline.models.encoder.model_files import ModelFiles, export_folders, keep_export, load_failure
from plumbline.models.encoder.packing import PROBE, PackedBatch, Precision, RowSlot, pack_batch
from plumbline.models.encoder.text_reader import TextReader

if TYPE_CHECKING:
    from openvino import CompiledModel, Model

    from plumbline.models.encoder.torch_model import TorchModel

_GRAPH, _WEIGHTS, _FACTS = "network.xml", "network.bin", "facts.json"
_PRECISIONS: dict[Precision, Literal["f32", "bf16"]] = {"fp32": "f32", "bf16": "bf16"}


class OpenVinoModel:
    """A `TokenModel` on the CPU, for `threads` that call `forward`; fp32 where the processor has no bf16.

    Raises TierFailure `not_installed`, also where texts of this model must not share a row.
    """

    supports_packing = True

    def __init__(self, files: ModelFiles, precision: Precision, *, threads: int) -> None:
        from openvino import Core  # noqa: PLC0415

        network, facts = _load_or_export(files)
        self.digest, self._position_offset = files.digest, facts.pop("position_offset")
        self.reader = TextReader(prefix=files.prefix, **facts)
        self._compiled: CompiledModel = Core().compile_model(
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
        self.backend = f"{_runtime_name().replace('-', ' ')} cpu {precision}"
        # Two threads that convert their first arrays at the same time deadlock on locks of the bindings (2026.4.1).
        tokens = list(self.reader.read(PROBE[:1]).tokens[0])
        self.forward(pack_batch([tokens], [RowSlot(0, 0, len(tokens))]))

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        """Return vectors as `TokenModel` says; the thread's next call overwrites the array."""
        request = getattr(self._requests, "request", None)
        if request is None:
            request = self._requests.request = self._compiled.create_infer_request()
        inputs = [batch.tokens, batch.positions + self._position_offset, batch.may_see()]
        found: NDArray[np.float32] = request.infer(inputs, share_inputs=True, share_outputs=True)[0]
        return found


def _load_or_export(files: ModelFiles) -> "tuple[Model, dict[str, Any]]":
    """Return the network of an earlier export, with facts; without one convert the model, and keep that for later.

    A folder that cannot be read, or has other weights than were exported, is removed.
    """
    from openvino import Core, save_model  # noqa: PLC0415

    def read(folder: Path) -> "tuple[Model, dict[str, Any]]":
        facts: dict[str, Any] = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        if facts.pop("weights", "") != sha256_of(folder / _WEIGHTS):
            raise ValueError("other weights than were exported")
        return Core().read_model(folder / _GRAPH), facts

    folders = export_folders(files, _runtime_name())
    for folder in filter(Path.is_dir, folders):
        try:
            return read(folder)
        except (OSError, InvalidInput, ValueError, RuntimeError):
            shutil.rmtree(folder, ignore_errors=True)
    network, facts = _convert(files)

    def write(folder: Path) -> None:
        save_model(network, folder / _GRAPH, compress_to_fp16=False)
        whole = json.dumps({**facts, "weights": sha256_of(folder / _WEIGHTS)})
        (folder / _FACTS).write_text(whole, encoding="utf-8")

    kept = keep_export(folders, write)
    # Read again, so that what runs is what was kept, and PyTorch's copy of the weights can go.
    return read(kept) if kept else (network, facts)


def _convert(files: ModelFiles) -> "tuple[Model, dict[str, Any]]":
    from plumbline.models.encoder.torch_model import TorchModel  # noqa: PLC0415

    loaded = TorchModel(files, "fp32")
    if loaded.position_offset is None:
        raise load_failure(files.folder, "its texts must not share a row, so OpenVINO does not run it")
    reader = loaded.reader
    return _trace(loaded), {
        "definition": reader.definition,
        "special": sorted(reader.special),
        "unknown": reader.unknown,
        "most": reader.most,
        "position_offset": loaded.position_offset,
    }


def _trace(loaded: "TorchModel") -> "Model":
    """Convert what a PyTorch network makes of a batch; raise what PyTorch and OpenVINO do, most of it RuntimeError."""
    import torch  # noqa: PLC0415
    from openvino import PartialShape  # noqa: PLC0415

    # The front end itself: the converter's command line reports its use to its maker.
    from openvino.frontend import FrontEndManager  # noqa: PLC0415
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder  # noqa: PLC0415

    class UnitVectors(torch.nn.Module):  # type: ignore[misc]  # their types are not read
        def __init__(self) -> None:
            super().__init__()
            self.network = loaded.network

        def forward(self, tokens: Any, positions: Any, may_see: Any) -> Any:
            found = self.network(input_ids=tokens, position_ids=positions, attention_mask=may_see)
            return torch.nn.functional.normalize(found.last_hidden_state, dim=-1)

    text = list(loaded.reader.read(PROBE[1:2]).tokens[0])
    batch = pack_batch([text, text], [RowSlot(0, 0, len(text)), RowSlot(1, 0, len(text))])
    arrays = (batch.tokens, batch.positions + (loaded.position_offset or 0), batch.may_see())
    with torch.inference_mode(), warnings.catch_warnings():
        # A trace warns of every branch that it takes for good.
        warnings.simplefilter("ignore")
        decoder = TorchScriptPythonDecoder(UnitVectors(), example_input=tuple(map(torch.from_numpy, arrays)))
        front_end = FrontEndManager().load_by_framework("pytorch")
        graph: Model = front_end.convert(front_end.load(decoder))
    shapes = ([-1, -1], [-1, -1], [-1, 1, -1, -1])
    graph.reshape({each: PartialShape(shape) for each, shape in zip(graph.inputs, shapes, strict=True)})
    return graph


def _runtime_name() -> str:
    from openvino import __version__  # noqa: PLC0415

    return f"openvino-{__version__.partition('-')[0]}"
