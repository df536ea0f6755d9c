"""Honest callers beside hostile ones: every answer is right, and nothing is left of those who have gone."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.hostile import hostile_service, settled
from benchmarks.hostile_load import Mixture
from benchmarks.hostile_requests import Attack, attacks

# On a machine that is busy with other things a large body takes its time; none of these waits for it to be over.
_BODY_SECONDS = 60.0
_REQUESTS = 360


def is_soon(attack: Attack) -> bool:
    """Whether it ends without the time for a body."""
    return attack.statuses != {408}


@pytest.mark.timeout(120)
async def test_every_answer_is_right_and_nothing_is_left(tmp_path: Path) -> None:
    with hostile_service("lexical", tmp_path / "data", body_seconds=_BODY_SECONDS) as (service, port, keys):
        hostile = list(filter(is_soon, attacks(keys)))
        mixture = Mixture(port, keys.good, hostile, ["lexical", "llm"], seed=1, hostile_share=0.45)

        await mixture.run(40, concurrency=32)
        before = settled(service, port)
        await mixture.run(_REQUESTS, concurrency=32)
        after = settled(service, port)

        left = [path.name for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert mixture.tally.first == {}
    assert mixture.tally.sent.keys() >= {f"! {attack.name}" for attack in hostile}
    assert (after.callers, after.listening) == (0, 1)
    assert after.files <= before.files + 1, "the store's own"
    assert after.others <= before.others
    assert Counter(left).keys() <= {"keys.json", ".keys.json.lock", *store_files(left)}


def store_files(names: list[str]) -> set[str]:
    """Those of the store and of its owner's lock; rows of jobs that are gone are not among them."""
    return {name for name in names if name.startswith("jobs.sqlite3") or "." not in name}
