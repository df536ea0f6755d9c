"""One function under every engine: what it takes, what it gives, and that batches do not change it."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from plumbline.extras.cluster.score_batch import BATCH_COLUMNS, BatchScorer
from plumbline.ground.errors import InvalidInput
from plumbline.schemas.batch import RowError, RowResult
from plumbline.schemas.evaluation import EvaluationOptions
from tests.making.cluster_files import BRIDGE, bridge_rows, timeless
from tests.running.service import plain_settings

LEXICAL = EvaluationOptions(tiers=["lexical"])


@pytest.fixture(scope="module")
def scorer() -> Iterator[BatchScorer]:
    with BatchScorer(plain_settings(), LEXICAL) as scorer:
        yield scorer


def lines_of(records: list[dict[str, object]]) -> list[str]:
    return [timeless(str(record["line"])) for record in records]


def test_a_row_becomes_a_record_with_its_scores_and_its_line(scorer: BatchScorer) -> None:
    (record,) = scorer.score_batch([{"custom_id": "a", "contexts": [BRIDGE], "answer": BRIDGE}])

    assert tuple(record) == BATCH_COLUMNS
    assert (record["custom_id"], record["row"], record["status"], record["tier"]) == ("a", 0, "judged", "lexical")
    line = RowResult.model_validate_json(str(record["line"]))
    assert line.result.faithfulness == record["faithfulness"] is not None


def frame_like(rows: list[dict[str, Any]]) -> Any:
    class Frame:
        columns = tuple(rows[0])

        def to_dict(self, orient: str) -> list[dict[str, Any]]:
            assert orient == "records"
            # pandas has NaN where nothing is
            return [{**row, "reference": float("nan")} for row in rows]

    return Frame()


def arrays(rows: list[dict[str, Any]]) -> dict[str, Any]:
    contexts = np.empty(len(rows), dtype=object)
    contexts[:] = [np.array(row["contexts"]) for row in rows]
    return {
        "custom_id": np.array([row["custom_id"] for row in rows]),
        "contexts": contexts,
        "answer": np.array([row["answer"] for row in rows], dtype=object),
    }


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize("form", [columns, arrays, frame_like, lambda rows: pa.table(columns(rows))])
def test_every_form_of_batch_gives_what_records_give(scorer: BatchScorer, form: Any) -> None:
    rows = bridge_rows(3)

    assert lines_of(scorer.score_batch(form(rows))) == lines_of(scorer.score_batch(rows))


def test_where_a_batch_is_cut_changes_nothing(scorer: BatchScorer) -> None:
    rows = bridge_rows(7, named=False)

    whole = scorer.score_batch(rows)
    parts = [*scorer.score_batch(rows[:3]), *scorer.score_batch(rows[3:], first_row=3)]

    assert lines_of(parts) == lines_of(whole)
    assert [record["custom_id"] for record in whole] == ["0", "1", "2", "3", "4", "5", "6"]


def test_a_bad_row_costs_itself_alone(scorer: BatchScorer) -> None:
    first, second, third = scorer.score_batch(
        [{"contexts": [BRIDGE], "answer": BRIDGE}, {"contexts": 7, "answer": "x"}, {"contexts": [], "answer": 1}]
    )

    assert first["status"] == "judged"
    assert second["error"] == "contexts is a number; expected a list of strings"
    assert third["error"] == "answer is a number; expected a string, the answer"
    assert RowError.model_validate_json(str(second["line"])).row == 1


def test_columns_may_have_the_names_of_a_preset() -> None:
    with BatchScorer(plain_settings(), LEXICAL, columns="ragas") as scorer:
        (record,) = scorer.score_batch({"retrieved_contexts": [[BRIDGE]], "response": [BRIDGE], "user_input": ["?"]})

    assert record["status"] == "judged"


@pytest.mark.parametrize("batch", ["text", [1], {"answer": ["a", "b"], "contexts": [["c"]]}, {"text": ["a"]}])
def test_what_is_no_batch_of_samples_is_refused(scorer: BatchScorer, batch: Any) -> None:
    with pytest.raises(InvalidInput):
        scorer.score_batch(batch)


def test_no_rows_give_no_records(scorer: BatchScorer) -> None:
    assert scorer.score_batch([]) == []


def test_options_that_name_an_unknown_judge_are_refused_before_any_row() -> None:
    with pytest.raises(InvalidInput, match="nobody"):
        BatchScorer(plain_settings(), EvaluationOptions(judges=["nobody"]))


async def test_it_may_be_called_where_an_event_loop_runs(scorer: BatchScorer) -> None:
    records = await asyncio.to_thread(scorer.score_batch, bridge_rows(1))

    assert scorer.score_batch(bridge_rows(1))[0]["faithfulness"] == records[0]["faithfulness"]
    BatchScorer(plain_settings(), LEXICAL).close()


def test_the_line_is_one_line_of_json(scorer: BatchScorer) -> None:
    (record,) = scorer.score_batch([{"contexts": ["a\u2028b"], "answer": "a\u2028b\x85c"}])

    assert str(record["line"]).splitlines() == [record["line"]]
    assert json.loads(str(record["line"]))["row"] == 0
