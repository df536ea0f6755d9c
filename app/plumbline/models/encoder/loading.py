"""Choice of the backend that runs a model: the fastest that is installed, or the requested one."""

import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import structlog

from plumbline.ground.errors import TierFailure
from plumbline.ground.processor import has_nvidia_driver
from plumbline.models.encoder.model_files import ModelFiles, find_model, model_name, not_loaded
from plumbline.models.encoder.packing import Precision, TokenModel

Backend = Literal["auto", "torch", "openvino"]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model by path or hub id, None for the built-in one, its backend and precision.

    `auto`: PyTorch where there is a GPU, else OpenVINO where it is installed and runs the model, else PyTorch.
    """

    model: str | None = None
    backend: Backend = "auto"
    precision: Precision = "fp32"


def load(choice: ModelChoice, *, threads: int) -> TokenModel:
    """Load the model.

    Raises:
        TierFailure: `not_installed`.
    """
    started = time.monotonic()
    files = find_model(choice.model)
    model = _load(files, choice, threads)
    seconds = round(time.monotonic() - started, 2)
    structlog.get_logger().info(
        "encoder_loaded", model=model_name(choice.model), backend=model.backend, seconds=seconds
    )
    return model


def _load(files: ModelFiles, choice: ModelChoice, threads: int) -> TokenModel:
    # Both import what they need when they are made.
    from plumbline.models.encoder.openvino_model import OpenVinoModel  # noqa: PLC0415
    from plumbline.models.encoder.torch_model import TorchModel  # noqa: PLC0415

    has_openvino = find_spec("openvino") is not None
    if choice.backend == "openvino":
        if not has_openvino:
            raise not_loaded(files.folder, "openvino is not installed; install plumbline-rag[openvino]")
        return OpenVinoModel(files, choice.precision, threads=threads)
    if choice.backend == "auto" and has_openvino and not has_nvidia_driver():
        try:
            return OpenVinoModel(files, choice.precision, threads=threads)
        except (TierFailure, RuntimeError) as error:
            structlog.get_logger().info("encoder_not_on_openvino", model=files.folder.name, error=type(error).__name__)
    return TorchModel(files, choice.precision)
