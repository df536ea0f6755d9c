"""Amounts that the wording of a claim says are calculated, and amounts that only happen to be a sum."""

import pytest

from plumbline.judging.quantities.arithmetic import missing
from plumbline.judging.quantities.context_quantities import drop_calculated
from plumbline.judging.quantities.extraction import facts_in, stated_in_claim

BOATS = "Acme sold 20 boats in 2019 and 30 in 2020."
TOWERS = "The north tower is 88 metres high, the south tower 61."


def _is_calculated(claim: str, passage: str) -> bool:
    lacking = missing(stated_in_claim(claim), facts_in(passage), is_derived=False)
    assert lacking
    return not drop_calculated(lacking, [passage])


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("Acme sold 50 boats in total.", BOATS),  # 20 + 30
        ("Acme sold 10 more boats than the year before.", BOATS),  # 30 - 20
        ("Sales grew by 50%.", BOATS),  # (30 - 20) / 20
        ("The north tower is 27 metres higher.", TOWERS),  # 88 - 61
        ("The choir has 24 singers.", "The choir has 5 sopranos, 8 altos and 11 basses."),  # 5 + 8 + 11
        ("The vans carry 96 crates in all.", "Each of the 8 vans carries 12 crates."),  # 8 * 12
        ("Each heir got 40,000 euros.", "The 120,000 euros were shared by three heirs."),  # 120,000 / 3
        ("150 seats are for members.", "Half of the 300 seats are for members."),  # 300 / 2
        ("94% of the tickets were sold.", "Of the 250 tickets 235 were sold."),  # 235 / 250
        ("共售出50艘船。", "2019年售出20艘船，2020年售出30艘。"),
        ("每人分得40元。", "120元由3人平分。"),
        ("还剩15张票。", "250张票已售出235张。"),
    ],
)  # fmt: skip
def test_an_amount_that_its_wording_says_is_calculated_needs_no_source(claim: str, passage: str) -> None:
    assert _is_calculated(claim, passage)


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("Acme sold 25 boats in 2019.", BOATS),  # their mean, which nothing speaks of
        ("Acme sold 50 boats in 2019.", BOATS),  # their sum, which nothing speaks of
        ("Acme sold 51 boats in total.", BOATS),
        ("Acme sold 10 boats in 2018.", BOATS),
        ("The vans carry 96 crates.", "The 8 vans carry 12 crates."),
        ("The north tower is 149 metres high.", TOWERS),
        ("Sales grew by 60%.", BOATS),
        ("2019年售出50艘船。", "2019年售出20艘船，2020年售出30艘。"),
        ("Sales reached 45 boats in all.", ", ".join(f"{number} boats" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11))),
    ],
)
def test_an_amount_that_only_happens_to_be_a_sum_or_a_mean_does(claim: str, passage: str) -> None:
    assert not _is_calculated(claim, passage)
