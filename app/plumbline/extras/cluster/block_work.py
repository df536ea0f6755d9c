"""What a process of a cluster does: takes a block's description, scores its rows, writes its file. Knows no engine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from plumbline import __version__
from plumbline.extras.cluster.block_plan import Block, Reading, block_records
from plumbline.extras.cluster.output_blocks import OutputBlocks, block_of
from plumbline.extras.cluster.score_batch import BatchScorer
from plumbline.extras.cluster.shared_settings import judges_digest, received_settings, share_of
from plumbline.extras.cluster.task import BlockFormat
from plumbline.ground.errors import ConfigurationError, PlumblineError
from plumbline.ground.telemetry import configure_logging
from plumbline.rows.scored_row import RowTally
from plumbline.schemas.evaluation import EvaluationOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """What holds for every block of a run; plain data without secrets, since engines keep it in logs and stores.

    Args:
        settings: as `sent_settings` has them. judges: their digest.
        options: as JSON.
        run: a name of this run, by which the tries of a block are counted.
        workers: how many processes share the limits.
    """

    settings: Mapping[str, object]
    judges: str
    options: str
    reading: Reading
    places: tuple[str, ...]
    out_dir: str
    block_format: BlockFormat
    run: str
    workers: int
    cpu_threads: int
    version: str = __version__


class BlockWork:
    """Scores blocks with one scorer, kept warm; what the user can fix is returned, everything else raised."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """Blocks as JSON texts in, what became of each as JSON texts out: a batch as engines hand it out."""
        return {"outcome": [json.dumps(self.done(block_of(json.loads(str(text))))) for text in batch["block"]]}

    def done(self, block: Block) -> dict[str, object]:
        """`{"block": file, ...}` with `summary`, or `given_up`, or `refused`, one line."""
        told = {"block": self._output.file_of(block)}
        try:
            if (summary := self._output.summary_of(block)) is not None:
                return {**told, "summary": summary.model_dump(mode="json")}
            if not self._output.may_begin(block, self._order.run):
                return {**told, "given_up": True}
            return {**told, "summary": self._scored(block)}
        except PlumblineError as error:
            return {**told, "refused": str(error)}
        except OSError as error:
            return {**told, "refused": f"{self._order.out_dir}: cannot be written ({error.strerror or error})"}

    def close(self) -> None:
        """Close the scorer."""
        self._scorer.close()

    @cached_property
    def _output(self) -> OutputBlocks:
        return OutputBlocks(self._order.out_dir, self._order.block_format)

    @cached_property
    def _scorer(self) -> BatchScorer:
        order = self._order
        if order.version != __version__:
            raise ConfigurationError(
                f"a worker has plumbline {__version__}; expected {order.version}, as the driver has"
            )
        received = received_settings(order.settings)
        configure_logging(received.log_level)
        if judges_digest(received) != order.judges:
            raise ConfigurationError(
                "a worker's judges are not those of this machine; set the same PLUMBLINE_LLM_* variables and keys in "
                "the environment of the cluster's nodes"
            )
        settings = share_of(received, order.workers).model_copy(update={"cpu_threads": order.cpu_threads})
        return BatchScorer(settings, EvaluationOptions.model_validate_json(order.options))

    def _scored(self, block: Block) -> dict[str, object]:
        scorer, tally = self._scorer, RowTally()
        rows = scorer.score(block_records(self._order.places[block.file], block, self._order.reading))
        for row in rows:
            tally.add(row)
        summary = tally.summary()
        self._output.write(block, rows, summary)
        return summary.model_dump(mode="json")
