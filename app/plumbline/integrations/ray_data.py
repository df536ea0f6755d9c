"""Ray Data: a callable over a batch of columns for `Dataset.map_batches`; Spark, Daft, polars and pandas call it alike.

    scored = ray.data.read_parquet("rows").map_batches(ColumnScorer, concurrency=2, num_cpus=1, batch_size=256)

It imports none of them: install `plumbline-rag[ray]`, or `plumbline-rag[service]` with the engine that you have.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Unpack

from plumbline.client.samples import OptionFields, sample_fields
from plumbline.integrations.checker import Checker, EvaluationClient
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.frames import frame_records
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.schemas.explanation import explain

RESULT_FIELDS: Final = ("id", "status", "tier", "faithfulness", "passed", "reason", "result", "error")
# A batch does not know where its rows stand in the data set: a row without an id of its own has none.
_NO_ROW: Final = -1


class ColumnScorer:
    """Scores the rows of a batch concurrently; returns the batch's columns and one for each of `RESULT_FIELDS`.

    `result` is the whole result as JSON. A bad row costs itself alone: its status is `error`, and `error` says why. It
    opens at the first batch, so it can be pickled before; a service that is away raises ClientError, for the engine to
    try the batch again.

    Args:
        url: of a running service; None: PLUMBLINE_URL, else this process. The key: PLUMBLINE_API_KEY.
        columns: a map, the name of a preset, or None to find the columns by their names, as in a file.
        prefix: stands before the names of the result columns.
        client: replaces `url`.
        options: as of `Plumbline.evaluate`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        columns: ColumnMap | str | None = None,
        prefix: str = "plumbline_",
        client: "EvaluationClient | None" = None,
        **options: Unpack[OptionFields],
    ) -> None:
        self._columns = columns
        self._prefix = prefix
        self._checker = Checker(url, client=client, **options)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns with those of the results; columns are lists, or arrays of numpy, Arrow or pandas.

        Raises InvalidInput without answer and contexts, and ClientError.
        """
        columns = dict(batch.items())
        rows = list(frame_records(columns, columns=self._columns, row=_NO_ROW) or ())
        samples = (sample_fields(row.sample) for row in rows if isinstance(row, Record))
        answers = iter(list(self._checker.check_many(samples)))
        scored = []
        for row in rows:
            own: dict[str, Any] = {"id": None if row.custom_id == str(_NO_ROW) else row.custom_id}
            if isinstance(row, RecordProblem):
                scored.append({**own, "status": "error", "error": str(row.fault)})
            elif (answer := next(answers)).result is None:
                detail = answer.problem.detail if answer.problem else "no result"
                scored.append({**own, "status": "error", "error": detail})
            else:
                result = {**answer.raw, **own}
                text = json.dumps(result, ensure_ascii=False)
                scored.append({**result, "reason": explain(answer.result), "result": text})
        return {**columns, **{self._prefix + name: [each.get(name) for each in scored] for name in RESULT_FIELDS}}

    def close(self) -> None:
        self._checker.close()
