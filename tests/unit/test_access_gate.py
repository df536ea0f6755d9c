"""The gate: requests a minute by hand-counted cells, requests under way, and the bound of all together."""

import pytest

from plumbline.ground.errors import ConcurrencyExceeded, RateExceeded, TooBusy
from plumbline.service.access.gate import Gate, Quota
from plumbline.service.access.key import AccessKey, Limits
from plumbline.service.access.rate import CellRate, RateStanding


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


def key(tenant: str = "a", **limits: int) -> AccessKey:
    return AccessKey(tenant, tenant, limits=Limits(**limits))


# --- requests a minute


def test_a_full_minute_at_once_then_one_for_each_part_of_a_minute() -> None:
    rate = CellRate()

    # 4 a minute: a cell is 15 s
    assert [rate.ask(4, 100.0) for _ in range(5)] == [
        RateStanding(True, 3, 15),
        RateStanding(True, 2, 15),
        RateStanding(True, 1, 15),
        RateStanding(True, 0, 15),
        RateStanding(False, 0, 15),
    ]
    assert rate.ask(4, 114.0) == RateStanding(False, 0, 1)
    assert rate.ask(4, 115.0) == RateStanding(True, 0, 15)
    assert rate.ask(4, 116.0) == RateStanding(False, 0, 14)
    # 34 s behind the last one: two cells, and 4 s of the third
    assert rate.ask(4, 149.0) == RateStanding(True, 1, 11)


def test_what_is_refused_costs_nothing() -> None:
    rate = CellRate()
    rate.ask(1, 0.0)

    assert not any(rate.ask(1, second).is_admitted for second in range(60))
    assert rate.ask(1, 60.0).is_admitted


def test_idle_time_gathers_no_more_than_a_minute() -> None:
    rate = CellRate()
    rate.ask(3, 0.0)

    assert [rate.ask(3, 86_400.0).is_admitted for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("most", [1, 3, 7, 59, 60, 61, 999, 100_000])
def test_over_a_long_time_it_is_the_rate_that_was_promised(most: int) -> None:
    rate, now, admitted = CellRate(), 12_345_678.9, 0
    step = 60 / most / 2

    for _ in range(4 * most):
        admitted += rate.ask(most, now).is_admitted
        now += step

    # a full minute at first, and one for each cell of the two minutes that pass; sums of half cells are not exact
    assert 3 * most - 2 <= admitted <= 3 * most


def test_a_key_beyond_its_rate_is_told_when_to_come_again() -> None:
    clock, told = Clock(), []  # type: ignore[var-annotated]
    gate, mine = Gate(max_requests=10, clock=clock), key(requests_per_minute=2)
    for _ in range(2):
        gate.enter(mine, [])

    with pytest.raises(RateExceeded) as refused:
        gate.enter(mine, told)

    assert refused.value.retry_after_seconds == 30
    assert told == [Quota("requests", 2, 0, window_seconds=60, next_seconds=30)]
    assert (gate.under_way, gate.refused["rate"]) == (2, 1)
    clock.seconds += 30
    gate.enter(mine, [])


# --- requests under way


def test_a_key_has_only_so_many_under_way_and_leaves_room_for_others() -> None:
    gate, mine = Gate(max_requests=10), key(concurrency=1)
    told: list[Quota] = []
    gate.enter(mine, [])

    with pytest.raises(ConcurrencyExceeded) as refused:
        gate.enter(mine, told)
    gate.enter(key("b", concurrency=1), [])
    gate.leave(mine)
    gate.enter(mine, [])

    assert refused.value.retry_after_seconds == 1
    assert told == [Quota("concurrency", 1, 0, unit="concurrent-requests")]
    assert (gate.under_way, gate.refused["concurrency"]) == (2, 1)


def test_a_request_that_finds_no_place_costs_nothing_of_the_rate() -> None:
    gate, mine = Gate(max_requests=10, clock=Clock()), key(concurrency=1, requests_per_minute=2)
    gate.enter(mine, [])
    for _ in range(5):
        with pytest.raises(ConcurrencyExceeded):
            gate.enter(mine, [])
    gate.leave(mine)

    gate.enter(mine, [])


def test_beyond_the_bound_of_all_nobody_is_let_in() -> None:
    gate = Gate(max_requests=2)
    gate.enter(key("a"), [])
    gate.enter(key("b"), [])

    with pytest.raises(TooBusy):
        gate.enter(key("c"), [])
    gate.leave(key("a"))
    gate.enter(key("c"), [])

    assert gate.refused["capacity"] == 1
