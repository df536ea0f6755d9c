"""A breaker opens after failures in a row, lets one probe through, and doubles its pause: for every order of calls."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from plumbline.models.chat.endpoint_guard import Breaker, Permit

THRESHOLD, FIRST, LONGEST = 3, 10.0, 80.0


class BreakerMachine(RuleBasedStateMachine):
    """Calls that start, end and are given up in any order, beside a model that knows what must be."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = Breaker(
            threshold=THRESHOLD, first_seconds=FIRST, longest_seconds=LONGEST, clock=lambda: self.now
        )
        self.under_way: list[Permit] = []
        self.stale: list[Permit] = []
        self.failures = 0
        self.pause = 0.0
        self.opened_at = 0.0

    def _changed(self, pause: float) -> None:
        self.pause, self.opened_at, self.failures = pause, self.now, 0
        self.stale += self.under_way
        self.under_way = []

    @property
    def probes(self) -> list[Permit]:
        return [permit for permit in self.under_way if permit.is_probe]

    @rule()
    def start(self) -> None:
        permit = self.breaker.admit()
        is_open = self.pause > 0 and (self.now < self.opened_at + self.pause or bool(self.probes))
        assert (permit is None) == is_open
        if permit is not None:
            assert permit.is_probe == (self.pause > 0)
            self.under_way.append(permit)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        permit = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        assert not self.breaker.end(permit, answered=True)
        self.failures = 0
        if permit.is_probe:
            self._changed(0.0)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        permit = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        self.failures += 1
        opens = permit.is_probe or self.failures >= THRESHOLD
        assert self.breaker.end(permit, answered=False) == opens
        if opens:
            self._changed(min(LONGEST, self.pause * 2) if permit.is_probe else FIRST)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        permit = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        assert not self.breaker.end(permit, answered=None)

    @precondition(lambda self: self.stale)
    @rule(answered=st.sampled_from([True, False, None]))
    def end_after_a_change(self, answered: bool | None) -> None:
        assert not self.breaker.end(self.stale.pop(), answered=answered)

    @rule(seconds=st.sampled_from([0.0, 1.0, FIRST, FIRST * 2, LONGEST]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def at_most_one_probe(self) -> None:
        assert len(self.probes) <= 1

    @invariant()
    def says_how_long(self) -> None:
        left = max(0.0, self.opened_at + self.pause - self.now) if self.pause else 0.0
        assert self.breaker.seconds_left == pytest.approx(left)
        assert self.pause <= LONGEST


TestBreaker = BreakerMachine.TestCase


def test_its_pause_doubles_to_a_bound_and_is_forgotten_after_a_success() -> None:
    now = 0.0
    breaker = Breaker(threshold=1, first_seconds=10, longest_seconds=300, clock=lambda: now)
    pauses = []
    for _ in range(7):
        permit = breaker.admit()
        assert permit is not None
        breaker.end(permit, answered=False)
        pauses.append(breaker.seconds_left)
        now += breaker.seconds_left
    assert pauses == [10, 20, 40, 80, 160, 300, 300]

    probe = breaker.admit()
    assert probe is not None
    breaker.end(probe, answered=True)
    call = breaker.admit()
    assert call is not None
    breaker.end(call, answered=False)

    assert breaker.seconds_left == 10
