"""Numbers of claims and of passages: the same amounts in whatever way they are written, and no others."""

import pytest

from plumbline.judging.quantities.arithmetic import missing
from plumbline.judging.quantities.extraction import facts_in, same_numbers, stated_in_claim


def _is_backed(claim: str, passage: str, *, is_derived: bool = False) -> bool:
    return not missing(stated_in_claim(claim), facts_in(passage), is_derived=is_derived)


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("1,200 people", "1200 people"),
        ("1 200 people", "1,200 people"),
        ("1200 people", "1\u00a0200 people"),
        ("1.2 million people", "1,200,000 people"),
        ("1,200,000 people", "1.2m people"),
        ("$3.4bn", "3.4 billion dollars"),
        ("US$5 million", "$5,000,000"),
        ("5万人", "50,000 people"),
        ("320 million people", "3.2亿人"),
        ("3.2亿人", "三亿二千万人"),
        ("3500 billion yuan", "三万五千亿元"),
        ("12 %", "12 percent"),
        ("12 per cent", "12%"),
        ("百分之十二", "12%"),
        ("12%", "百分之十二"),
        ("30%", "三成"),
        ("12%", "0.12 of them"),
        ("50%", "half of them"),
        ("25%", "a quarter of them"),
        ("75%", "3/4 of them"),
        ("33%", "三分之一以及33%"),
        ("12 members", "twelve members"),
        ("twelve members", "12 members"),
        ("twenty-one ships", "21 ships"),
        ("two hundred and five thousand men", "205,000 men"),
        ("nineteen eighty-four", "1984"),
        ("12 eggs", "a dozen eggs"),
        ("2 times", "twice"),
        ("the 3rd time", "the third time"),
        ("the 21st floor", "the twenty-first floor"),
        ("第三届会议", "the 3rd session"),
        ("三十五个国家", "35 countries"),
        ("12 March 2020", "March 12, 2020"),
        ("March 12th, 2020", "2020-03-12"),
        ("2020年3月12日", "12 March 2020"),
        ("12 March 2020", "二〇二〇年三月十二日"),
        ("on 12 March", "2020-03-12"),
        ("in March 2020", "on 12 March 2020"),
        ("12/03/2020", "12 March 2020"),
        ("in 2020", "12 March 2020"),
        ("in June", "on 6 June"),
        ("2018-19", "from 2018 to 2019"),
        ("from 2018 to 2019", "2018/19"),
        ("the 1990s", "in 1994"),
        ("the 1990s", "in the 1990s"),
        ("上世纪90年代", "in 1994"),
        ("20世纪90年代", "1990s"),
        ("the 19th century", "in 1845"),
        ("the nineteenth century", "the 19th century"),
        ("5:30 pm", "17:30"),
        ("5 pm", "17:00"),
        ("1.5 km", "1500 m"),
        ("1500米", "1.5公里"),
        ("2 kg", "2000 g"),
        ("90 minutes", "1.5 hours"),
        ("20 years", "two decades"),
        ("8 weeks", "56 days"),
        ("1.2 million", "1,234,567"),
        ("40%", "39.7%"),
        ("about 40,000", "42,350"),
        ("nearly 1,000", "987"),
        ("over 40,000", "42,350"),
        ("more than 300", "312"),
        ("up to 50", "48"),
        ("约4万人", "41,200 people"),
        ("300多人", "312 people"),
        ("World War 2", "World War II"),
        ("three brothers", "John, James and Jack"),
        ("三个城市", "北京、上海和广州"),
    ],
)
def test_the_same_amount_is_found_however_it_is_written(claim: str, passage: str) -> None:
    assert _is_backed(claim, passage)


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("1,300 people", "1,200 people"),
        ("1.3 million people", "1,200,000 people"),
        ("12 million", "12 thousand"),
        ("5万人", "5,000 people"),
        ("3.2亿人", "320万人"),
        ("13%", "12 percent"),
        ("百分之十三", "12%"),
        ("12%", "12 km"),
        ("12 km", "12 miles"),
        ("$12", "€12"),
        ("13 members", "twelve members"),
        ("twenty-two ships", "21 ships"),
        ("12 April 2020", "March 12, 2020"),
        ("13 March 2020", "March 12, 2020"),
        ("12 March 2021", "March 12, 2020"),
        ("2021年3月12日", "2020年3月12日"),
        ("5 March", "born on 12 March, died on 5 May"),
        ("in July", "on 6 June"),
        ("in 2021", "12 March 2020"),
        ("the 1980s", "in 1994"),
        ("the 18th century", "in 1845"),
        ("6:30 pm", "17:30"),
        ("1.6 km", "1500 m"),
        ("3 hours", "90 minutes"),
        ("1.3 million", "1,234,567"),
        ("1,230", "1,234"),
        ("about 60,000", "42,350"),
        ("over 50,000", "42,350"),
        ("up to 40", "48"),
        ("三十六个国家", "35 countries"),
        ("40 brothers", "John, James and Jack"),
    ],
)
def test_another_amount_is_not(claim: str, passage: str) -> None:
    assert not _is_backed(claim, passage)


@pytest.mark.parametrize(
    "claim",
    [
        "One of the first to win",
        "COVID-19 and the F-16 and H1N1 and a 3D film",
        "See [12] and [3, 4] and https://example.org/2031/page",
        "1. It is the only one",
        "一些人一起统一了意见，千万别忘记，万一下雨",
        "She may march on; an august company",
        "a second half of dozens of people",
        "四川和三明的百姓",
        "",
    ],
)
def test_what_is_no_amount_is_not_asked_for(claim: str) -> None:
    assert not stated_in_claim(claim)


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("50 boats", "20 boats in 2019 and 30 in 2020"),  # 20 + 30
        ("10 more", "20 and 30"),  # 30 - 20
        ("600", "20 by 30"),  # 20 * 30
        ("66.7%", "20 of 30"),  # 100 * 20 / 30
        ("1.5 times", "20 and 30"),  # 30 / 20
        ("a rise of 50%", "from 20 to 30"),  # (30 - 20) / 20
        ("25 on average", "20 and 30"),  # (20 + 30) / 2
        ("60 in all", "10, 20 and 30"),  # 10 + 20 + 30
        ("88% did not", "12% did"),  # 100 - 12
    ],
)
def test_a_derived_amount_may_be_calculated(claim: str, passage: str) -> None:
    assert _is_backed(claim, passage, is_derived=True)
    assert not _is_backed(claim, passage)


def test_a_derived_amount_must_come_out() -> None:
    assert not _is_backed("777 boats", "20 boats in 2019 and 30 in 2020", is_derived=True)


@pytest.mark.parametrize(("quote", "passage"), [("five trains", "9 trains"), ("2008", "2009"), ("3万", "3亿")])
def test_a_quote_with_another_number_is_told_from_its_passage(quote: str, passage: str) -> None:
    assert not same_numbers(quote, passage)
    assert same_numbers(quote, f"{passage} and {quote}")
