"""Coverage by n-grams, against sets of substrings; and that its bounds on the work change no count it reports."""

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plumbline.judging.text import gram_cover
from plumbline.judging.text.gram_cover import Cover, cover

_TEXTS = st.one_of(st.text("ab ", max_size=12), st.text("abcdefgh大坝😀", max_size=12))
_OTHERS = st.lists(_TEXTS, min_size=1, max_size=30)
_SIZES = st.integers(1, 4)


def grams(text: str, size: int) -> frozenset[str]:
    return frozenset(text[at : at + size] for at in range(len(text) - size + 1))


def _cover(texts: Sequence[str], others: Sequence[str], *, size: int) -> list[Cover]:
    return cover((grams(text, size) for text in texts), (grams(text, size) for text in others))


def _naive(text: str, others: Sequence[str], size: int) -> Cover:
    wanted = grams(text, size)
    found = [wanted & grams(other, size) for other in others]
    anywhere = frozenset[str]().union(*found)
    if not anywhere:
        return Cover(0.0, 0.0, ())
    best = max(map(len, found))
    rows = [row for row, each in enumerate(found) if len(each) == best]
    return Cover(len(anywhere) / len(wanted), best / len(wanted), tuple(rows[: gram_cover._MAX_EQUALS]))


def test_what_several_texts_hold_together_and_what_one_holds_alone() -> None:
    (found,) = _cover(["lamps"], ["a lamp", "maps", "gate"], size=2)

    # la, am, mp, ps: three stand in "a lamp", ps alone in "maps", which has no am.
    assert found == Cover(anywhere=1.0, best=0.75, rows=(0,))


def test_texts_that_hold_as_many_are_all_named_in_order_up_to_a_bound() -> None:
    (found,) = _cover(["lamp"], ["lamp", "rope", *["lamp"] * 40], size=4)

    assert found.rows == (0, *range(2, 17))


def test_texts_without_anything_to_cover_them_are_not_covered() -> None:
    nothing = Cover(0.0, 0.0, ())

    assert _cover(["lamp", "gate"], [], size=2) == [nothing, nothing]
    assert _cover(["lamp", "gate", "x"], ["", "x"], size=2) == [nothing, nothing, nothing]


@given(st.lists(_TEXTS, min_size=1, max_size=6), _OTHERS, _SIZES)
def test_coverage_is_that_of_sets_of_substrings(texts: list[str], others: list[str], size: int) -> None:
    assert _cover(texts, others, size=size) == [_naive(text, others, size) for text in texts]


@given(_TEXTS, _OTHERS, _SIZES, st.integers(2, 12), st.integers(1, 4))
def test_beyond_the_bounds_the_share_found_anywhere_is_exact_and_the_best_is_the_count_of_its_rows(
    text: str, others: list[str], size: int, places: int, candidates: int
) -> None:
    exact = _naive(text, others, size)
    assume(_rarest(text, others, size) < places)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram_cover, "_MAX_PLACES_READ", places)
        patch.setattr(gram_cover, "MAX_CANDIDATES", candidates)
        (found,) = _cover([text], others, size=size)

    assert found.anywhere == exact.anywhere
    assert 0.0 < found.best <= exact.best or found == exact == Cover(0.0, 0.0, ())
    wanted = grams(text, size)
    assert all(len(wanted & grams(others[row], size)) / len(wanted) == found.best for row in found.rows)
    assert list(found.rows) == sorted(set(found.rows))


def test_beyond_the_bounds_a_rare_gram_finds_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_cover, "_MAX_PLACES_READ", 10)
    others = [*["the gate"] * 50, "the lamp", *["the gate"] * 50]

    (found,) = _cover(["the lamp"], others, size=4)

    assert found == Cover(1.0, 1.0, (50,))


def _rarest(text: str, others: Sequence[str], size: int) -> int:
    """In how many texts the rarest known gram stands; 0 without one."""
    return min((count for gram in grams(text, size) if (count := sum(gram in other for other in others))), default=0)
