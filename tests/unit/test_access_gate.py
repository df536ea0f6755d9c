"""The gate: requests a minute by hand-counted cells, requests under way, and the bound of all together."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from plumbline.ground.errors import ConcurrencyExceeded, RateExceeded, TooBusy
from plumbline.ground.rate_limit import ArrivalTimes
from plumbline.service.access.access import Quota, RequestGate
from plumbline.service.access.keys import AccessKey, Limits


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


def key(tenant: str = "a", **limits: int) -> AccessKey:
    return AccessKey(tenant, tenant, limits=Limits(**limits))


# --- requests a minute


class Caller:
    """One key at a gate: `ask` tells if a request is admitted, how many are left, and when there is one more."""

    def __init__(self, requests_per_minute: int, *, arrivals: ArrivalTimes | None = None) -> None:
        self.clock = Clock()
        self._gate = RequestGate(max_requests=10**9, arrivals=arrivals, clock=self.clock)
        self._key = key(requests_per_minute=requests_per_minute)

    def ask(self, now: float) -> tuple[bool, int, int | None]:
        self.clock.seconds = now
        quotas: list[Quota] = []
        try:
            self._gate.enter(self._key, quotas)
        except RateExceeded:
            is_admitted = False
        else:
            is_admitted = True
        return is_admitted, quotas[0].remaining, quotas[0].next_seconds


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_full_minute_at_once_then_one_for_each_part_of_a_minute(tmp_path: Path, is_shared: bool) -> None:
    caller = Caller(4, arrivals=ArrivalTimes(tmp_path / "rates.sqlite") if is_shared else None)

    # 4 a minute: a cell is 15 s
    assert [caller.ask(100.0) for _ in range(5)] == [
        (True, 3, 15),
        (True, 2, 15),
        (True, 1, 15),
        (True, 0, 15),
        (False, 0, 15),
    ]
    assert caller.ask(114.0) == (False, 0, 1)
    assert caller.ask(115.0) == (True, 0, 15)
    assert caller.ask(116.0) == (False, 0, 14)
    # 34 s behind the last one: two cells, and 4 s of the third
    assert caller.ask(149.0) == (True, 1, 11)


def test_two_processes_share_one_rate(tmp_path: Path) -> None:
    one, other = (Caller(2, arrivals=ArrivalTimes(tmp_path / "rates.sqlite")) for _ in range(2))

    admitted = [each.ask(100.0)[0] for each in (one, other, one, other)]

    assert admitted == [True, True, False, False]


def test_a_file_that_fails_limits_each_process_by_itself(tmp_path: Path) -> None:
    caller = Caller(1, arrivals=ArrivalTimes(tmp_path))

    with capture_logs() as logs:
        admitted = [caller.ask(100.0)[0] for _ in range(2)]

    assert admitted == [True, False]
    assert [each["event"] for each in logs] == ["shared_rates_failed"]


def test_a_bound_on_requests_in_flight_is_divided_among_processes() -> None:
    gate, mine = RequestGate(max_requests=10, processes=2), key(concurrency=3)
    for _ in range(2):
        gate.enter(mine, [])

    with pytest.raises(ConcurrencyExceeded):
        gate.enter(mine, [])


def test_what_is_refused_costs_nothing() -> None:
    caller = Caller(1)
    caller.ask(0.0)

    assert not any(caller.ask(second)[0] for second in range(60))
    assert caller.ask(60.0)[0]


def test_idle_time_gathers_no_more_than_a_minute() -> None:
    caller = Caller(3)
    caller.ask(0.0)

    assert [caller.ask(86_400.0)[0] for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("most", [1, 3, 7, 59, 60, 61, 999, 10_000])
def test_over_a_long_time_it_is_the_rate_that_was_promised(most: int) -> None:
    caller, now, admitted = Caller(most), 12_345_678.9, 0
    step = 60 / most / 2

    for _ in range(4 * most):
        admitted += caller.ask(now)[0]
        now += step

    # a full minute at first, and one for each cell of the two minutes that pass; sums of half cells are not exact
    assert 3 * most - 2 <= admitted <= 3 * most


def test_a_key_beyond_its_rate_is_told_when_to_come_again() -> None:
    clock, told = Clock(), []  # type: ignore[var-annotated]
    gate, mine = RequestGate(max_requests=10, clock=clock), key(requests_per_minute=2)
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
    gate, mine = RequestGate(max_requests=10), key(concurrency=1)
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
    gate, mine = RequestGate(max_requests=10, clock=Clock()), key(concurrency=1, requests_per_minute=2)
    gate.enter(mine, [])
    for _ in range(5):
        with pytest.raises(ConcurrencyExceeded):
            gate.enter(mine, [])
    gate.leave(mine)

    gate.enter(mine, [])


def test_beyond_the_bound_of_all_nobody_is_let_in() -> None:
    gate = RequestGate(max_requests=2)
    gate.enter(key("a"), [])
    gate.enter(key("b"), [])

    with pytest.raises(TooBusy):
        gate.enter(key("c"), [])
    gate.leave(key("a"))
    gate.enter(key("c"), [])

    assert gate.refused["capacity"] == 1
