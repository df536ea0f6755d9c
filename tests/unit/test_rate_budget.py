"""A budget a minute holds in every window of 60 seconds, for every pattern of arrivals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.models.chat.call_limits import RateBudget
from tests.doubles.fakes import Clock


@given(
    st.sampled_from([1, 2, 3, 7, 60, 90, 600]),
    st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.1, 1.0, 30.0]), min_size=1, max_size=200),
)
def test_no_window_of_a_minute_has_more(per_minute: int, pauses: list[float]) -> None:
    clock = Clock(1_000.0)
    budget = RateBudget(per_minute, burst_seconds=1.0, clock=clock)
    starts = []
    for pause in pauses:
        clock.now += pause
        wait = budget.reserve(1, within_seconds=1e9)
        assert wait is not None
        starts.append(clock.now + wait)

    assert starts == sorted(starts)
    assert max(sum(first <= start < first + 60 for start in starts) for first in starts) <= per_minute


@pytest.mark.parametrize(("per_minute", "burst"), [(1, 1), (60, 1), (120, 2), (6_000, 100)])
def test_a_second_s_worth_goes_at_once(per_minute: int, burst: int) -> None:
    budget = RateBudget(per_minute, burst_seconds=1.0, clock=Clock(1_000.0))

    waits = [budget.reserve(1, within_seconds=1e9) for _ in range(burst + 1)]

    assert waits[:burst] == [pytest.approx(0.0, abs=1e-6)] * burst
    assert waits[burst] == pytest.approx(60 / per_minute, rel=0.05)


def test_without_a_burst_units_are_spread_evenly() -> None:
    budget = RateBudget(600, burst_seconds=0.0, clock=Clock(1_000.0))

    waits = [budget.reserve(1, within_seconds=60) for _ in range(4)]

    assert waits == pytest.approx([0.0, 0.1, 0.2, 0.3], rel=0.01)


def test_a_refusal_takes_nothing() -> None:
    budget = RateBudget(60, burst_seconds=1.0, clock=Clock(1_000.0))
    budget.reserve(1, within_seconds=0)

    assert [budget.reserve(1, within_seconds=0.5) for _ in range(3)] == [None] * 3
    assert budget.reserve(1, within_seconds=2) == pytest.approx(1.0, rel=0.01)


def test_work_beyond_the_burst_goes_and_is_paid_for_by_what_follows() -> None:
    budget = RateBudget(600, burst_seconds=1.0, clock=Clock(1_000.0))

    assert budget.reserve(100, within_seconds=0) == 0
    assert budget.reserve(1, within_seconds=60) == pytest.approx(9.1, abs=0.2)


def test_what_was_not_used_is_given_back() -> None:
    budget = RateBudget(600, burst_seconds=1.0, clock=Clock(1_000.0))
    budget.reserve(100, within_seconds=0)
    budget.settle(100, 1)

    assert budget.reserve(1, within_seconds=0) == 0
