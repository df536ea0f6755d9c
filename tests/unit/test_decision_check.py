"""The check of a decision model's `supported` in code: what it refutes, and what it leaves."""

import json

import pytest

from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.evidence.verdict_rules import REFUTED
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.verdicts import Verdict, whole_sentence_claim
from plumbline.judging.tiers.decision_check import DecisionCheck

CAPTIVITY = (
    "A Yazidi family managed to escape from the militants on foot. They walked by night and hid by day. Neighbours "
    "brought bread. It had been eight agonizing months. Rain fell. Wind blew. Nine trucks stood at the border."
)


def is_refuted(context: str, statement: str) -> bool:
    sample = segment(Sample("", (context,), statement))
    claim = whole_sentence_claim(0, sample.sentences[0], verdict=Verdict.SUPPORTED)
    (checked,) = DecisionCheck(sample, EvidenceSearch((context,), index=sample.index))([claim])
    return REFUTED in checked.flags


@pytest.mark.parametrize(
    ("context", "statement", "expected"),
    [
        ("The fair opens on Friday at the town hall.", "The fair at the town hall opens on Monday.", True),
        ("The fair opens Fri. at the town hall.", "The fair at the town hall opens on Friday.", False),
        ("会议定于星期五在北京举行，由王经理主持。", "王经理主持的会议周三在北京举行。", True),
        ("会议定于星期五在北京举行，由王经理主持。", "王经理主持的会议周五在北京举行。", False),
    ],
)
def test_a_day_of_the_week_that_no_context_names_is_refuted(context: str, statement: str, expected: bool) -> None:
    assert is_refuted(context, statement) is expected


@pytest.mark.parametrize(("first", "expected"), [("David", True), ("Striker", False)])
def test_a_first_word_that_no_context_has_is_a_name_in_front_of_a_name(first: str, expected: bool) -> None:
    context = "The striker Clarkson joined St Mirren last summer after a trial."

    assert is_refuted(context, f"{first} Clarkson joined St Mirren after a trial last summer.") is expected


@pytest.mark.parametrize(("count", "expected"), [("eight months", False), ("nine months", True)])
def test_a_number_is_near_in_a_short_sentence_with_half_of_its_words(count: str, expected: bool) -> None:
    assert is_refuted(CAPTIVITY, f"A Yazidi family managed to escape from militants after {count}.") is expected


CAFE = json.dumps(
    {
        "name": "Blue Door",
        "hours": {"Monday": "0:0-0:0", "Tuesday": "7:0-17:0", "Wednesday": "7:0-17:0", "Friday": "7:0-17:0"},
        "reviews": [{"date": "2021-12-16 20:14:06", "text": "Quiet place, and the drinks are cheap for the area."}],
    }
)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("The cafe is open from Monday to Friday.", True),
        ("The place is open seven days a week.", True),
        ("The cafe is closed on Fridays.", True),
        ("The cafe is open Tuesday and Friday, and closed on Mondays.", False),
        ("The cafe opens at 7:00 pm on Tuesday.", True),
        ("The business operates from 7:00 AM to 5:00 PM.", False),
    ],
)
def test_days_and_hours_are_compared_with_structured_opening_hours(statement: str, expected: bool) -> None:
    assert is_refuted(CAFE, statement) is expected


def test_the_time_of_a_stamp_is_no_amount() -> None:
    assert is_refuted(CAFE, "The drinks are cheap for the area, around $20 each.")


def test_a_number_is_near_its_unit_in_the_plural() -> None:
    context = json.dumps(
        {"business_stars": 3.5, "music": None, "parking": None, "review": "Customers praise the friendly staff here."}
    )

    assert not is_refuted(context, "It has a 3.5-star average, and customers praise the friendly staff.")
