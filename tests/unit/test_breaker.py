"""A breaker opens after failures in a row, lets one probe through, and doubles its pause: for every order of calls."""

from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from plumbline.models.chat.endpoint_guard import Breaker

THRESHOLD, FIRST, LONGEST = 3, 10.0, 80.0


class Call(NamedTuple):
    """A call that was let through, and what the model knows of it."""

    era: int
    is_probe: bool


class BreakerMachine(RuleBasedStateMachine):
    """Calls that start, end and are given up in any order, beside a model that knows what must be."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = Breaker(
            threshold=THRESHOLD, first_seconds=FIRST, longest_seconds=LONGEST, clock=lambda: self.now
        )
        self.under_way: list[Call] = []
        self.stale: list[Call] = []
        self.failures = 0
        self.pause = 0.0
        self.opened_at = 0.0

    def _changed(self, pause: float) -> None:
        self.pause, self.opened_at, self.failures = pause, self.now, 0
        self.stale += self.under_way
        self.under_way = []

    @property
    def probes(self) -> list[Call]:
        return [call for call in self.under_way if call.is_probe]

    @rule()
    def start(self) -> None:
        era = self.breaker.admit()
        is_open = self.pause > 0 and (self.now < self.opened_at + self.pause or bool(self.probes))
        assert (era is None) == is_open
        if era is not None:
            self.under_way.append(Call(era, self.pause > 0))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        call = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        assert not self.breaker.end(call.era, answered=True)
        self.failures = 0
        if call.is_probe:
            self._changed(0.0)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        call = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        self.failures += 1
        opens = call.is_probe or self.failures >= THRESHOLD
        assert self.breaker.end(call.era, answered=False) == opens
        if opens:
            self._changed(min(LONGEST, self.pause * 2) if call.is_probe else FIRST)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        call = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        assert not self.breaker.end(call.era, answered=None)

    @precondition(lambda self: self.stale)
    @rule(answered=st.sampled_from([True, False, None]))
    def end_after_a_change(self, answered: bool | None) -> None:
        assert not self.breaker.end(self.stale.pop().era, answered=answered)

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
        era = breaker.admit()
        assert era is not None
        breaker.end(era, answered=False)
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
