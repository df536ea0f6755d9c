"""The gate: requests in flight of one key, and of all together."""

import pytest

from plumbline.ground.errors import ConcurrencyExceeded, TooBusy
from plumbline.service.access.access import RequestGate, RequestLoad, WrongKeys
from plumbline.service.access.keys import AccessKey


def key(tenant: str = "a", concurrency: int | None = None) -> AccessKey:
    return AccessKey(tenant, tenant, concurrency=concurrency)


def test_a_bound_on_requests_in_flight_is_divided_among_processes() -> None:
    gate, mine = RequestGate(max_requests=10, processes=2), key(concurrency=3)
    for _ in range(2):
        gate.enter(mine)

    with pytest.raises(ConcurrencyExceeded):
        gate.enter(mine)


def test_a_key_has_only_so_many_in_flight_and_leaves_room_for_others() -> None:
    gate, mine = RequestGate(max_requests=10), key(concurrency=1)
    gate.enter(mine)

    with pytest.raises(ConcurrencyExceeded) as refused:
        gate.enter(mine)
    gate.enter(key("b", concurrency=1))
    gate.leave(mine)
    gate.enter(mine)

    assert refused.value.retry_after_seconds == 1
    assert (gate.under_way, gate.refused["concurrency"]) == (2, 1)


def test_beyond_the_bound_of_all_nobody_is_let_in() -> None:
    gate = RequestGate(max_requests=2)
    gate.enter(key("a"))
    gate.enter(key("b"))

    with pytest.raises(TooBusy):
        gate.enter(key("c"))
    gate.leave(key("a"))
    gate.enter(key("c"))

    assert gate.refused["capacity"] == 1


def test_requests_about_jobs_take_no_place_of_an_evaluation() -> None:
    gate, mine = RequestGate(max_requests=8), key()
    for _ in range(4):
        gate.enter(mine, RequestLoad(is_about_jobs=True))

    with pytest.raises(TooBusy, match="4 requests about jobs"):
        gate.enter(mine, RequestLoad(is_about_jobs=True))
    for _ in range(8):
        gate.enter(mine)
    with pytest.raises(TooBusy, match="8 requests are"):
        gate.enter(mine)
    gate.leave(mine, RequestLoad(is_about_jobs=True))
    gate.enter(mine, RequestLoad(is_about_jobs=True))

    assert gate.under_way == 12


def test_bodies_that_would_take_longer_than_the_deadline_are_refused_before_they_are_read() -> None:
    gate, mine = RequestGate(max_requests=100, deadline_seconds=20.0), key()
    gate.watch_rate(lambda: 1_000.0)
    gate.enter(mine, RequestLoad(body_bytes=10_000, has_deadline=True))

    with pytest.raises(TooBusy, match="about 15 s, with a deadline of 20 s") as refused:
        gate.enter(mine, RequestLoad(body_bytes=5_000, has_deadline=True))
    gate.enter(mine, RequestLoad(body_bytes=5_000))
    gate.leave(mine, RequestLoad(body_bytes=10_000, has_deadline=True))
    gate.enter(mine, RequestLoad(body_bytes=50_000, has_deadline=True))

    assert refused.value.retry_after_seconds == pytest.approx(1.0)
    assert gate.refused["capacity"] == 1


def test_the_bodies_in_flight_are_bounded() -> None:
    gate, mine = RequestGate(max_requests=100), key()
    gate.enter(mine, RequestLoad(body_bytes=2**28))

    with pytest.raises(TooBusy, match="bodies of the requests in flight"):
        gate.enter(mine, RequestLoad(body_bytes=1))
    gate.enter(mine)
    gate.leave(mine, RequestLoad(body_bytes=2**28))
    gate.enter(mine, RequestLoad(body_bytes=1))


def test_wrong_keys_of_one_address_are_answered_more_slowly_for_a_minute() -> None:
    now = 0.0
    wrong = WrongKeys(monotonic=lambda: now)

    pauses = [wrong.pause_seconds("192.0.2.1") for _ in range(22)]
    other = wrong.pause_seconds("192.0.2.2")
    now = 61.0

    assert pauses == [0.0] * 20 + [1.0] * 2
    assert other == wrong.pause_seconds("192.0.2.1") == 0.0
