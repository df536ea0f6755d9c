"""Progress of the probes of one sample before one judge: what has a proven verdict, and what may still be asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from plumbline.ground.errors import FailureReason
from plumbline.judging.ports.exchange import ChatReply
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, MetricAnswers, MetricVerdict
from plumbline.judging.tiers.context_windows import Window
from plumbline.judging.tiers.evidence.search import EvidenceSearch
from plumbline.judging.tiers.metrics.probe import (
    UNVERIFIED,
    Material,
    Probe,
    better_reading,
    lower_unproven,
    read_probe,
)
from plumbline.judging.tiers.questions import AskedProbes

# Of a list that a reply left out.
_MOST_ASKS: Final = 2


@dataclass(slots=True)
class ProbeProgress:
    """Verdicts of probes, filled reply by reply; each probe is asked twice at most."""

    probes: tuple[Probe, ...]
    case: SegmentedSample
    search: EvidenceSearch
    _found: dict[str, dict[str, tuple[MetricVerdict, ...]]] = field(default_factory=dict)
    _asks: Counter[str] = field(default_factory=Counter)

    def take_joined(self) -> list[tuple[Probe, list[str]]]:
        """Return the probes that go into one reply with the verdicts on sentences, with their ids."""
        return self._take([probe for probe in self.probes if not probe.needs_reference], ())

    def take_open(self, claims: Sequence[Claim]) -> list[tuple[Probe, list[str]]]:
        """Return the probes with the ids that lack a proven verdict and may still be asked about."""
        return self._take([probe for probe in self.probes if self._asks[probe.name] < _MOST_ASKS], claims)

    def read(self, reply: ChatReply, asked: AskedProbes, claims: Sequence[Claim], *, is_alone: bool) -> None:
        """Keep the verdicts of a reply; `is_alone` as for `read_probe`."""
        material = Material(self.case, self.search, claims)
        for probe, ids in asked:
            found = self._found.setdefault(probe.name, {})
            read = read_probe(probe, reply.content, ids, material, is_truncated=reply.is_truncated, is_alone=is_alone)
            found.update({each: better_reading(probe, found.get(each), verdicts) for each, verdicts in read.items()})

    def answers(self, claims: Sequence[Claim], failures: Mapping[str, str]) -> MetricAnswers:
        """Return the verdicts of the probes that have all of them; for the others the failure of their last call."""
        material = Material(self.case, self.search, claims)
        verdicts: dict[str, tuple[MetricVerdict, ...]] = {}
        reasons: dict[str, str] = {}
        for probe in self.probes:
            found = self._found.get(probe.name, {})
            if all(each in found for each in probe.ids(material)):
                verdicts[probe.name] = lower_unproven(probe, (verdict for said in found.values() for verdict in said))
            else:
                reasons[probe.name] = failures.get(probe.name, FailureReason.INVALID_REPLY)
        return MetricAnswers(verdicts, reasons)

    def _take(self, probes: Sequence[Probe], claims: Sequence[Claim]) -> list[tuple[Probe, list[str]]]:
        asked = [(probe, ids) for probe in probes if (ids := self._open_ids(probe, claims))]
        self._asks.update(probe.name for probe, _ in asked)
        return asked

    def _open_ids(self, probe: Probe, claims: Sequence[Claim]) -> list[str]:
        found = self._found.get(probe.name, {})
        wanted = probe.ids(Material(self.case, self.search, claims))
        return [
            each for each in wanted if each not in found or any(UNVERIFIED in verdict.flags for verdict in found[each])
        ]


def split_by_window(asked: AskedProbes, windows: Sequence[Window]) -> list[tuple[AskedProbes, Window]]:
    """Return what is asked in each window: of passages those in it, without need of contexts all in the first."""
    seen: set[str] = set()
    parts: list[tuple[AskedProbes, Window]] = []
    for position, window in enumerate(windows):
        here = {str(piece.number) for piece in window} - seen
        seen |= here
        chosen = [
            (probe, [each for each in ids if probe.about != "context" or each in here])
            for probe, ids in asked
            if position == 0 or "contexts" in probe.shows
        ]
        if part := [each for each in chosen if each[1]]:
            parts.append((part, window))
    return parts
