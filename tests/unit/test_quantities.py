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
        ("20%", "两成"),
        ("85年", "1985年"),
        ("1998年", "九八年"),
        ("50公里", "100里"),
        ("at half past five", "17:30"),
        ("a quarter to six", "17:45"),
        ("in 1932", "It burned down in 1931 and was rebuilt the following year."),
        ("1932年", "1931年毁于大火，次年重建"),
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
        ("by 31 July", "by the last day of July"),
        ("on the last day of April 2023", "on 30 April 2023"),
        ("2023年2月28日", "2023年2月的最后一天"),
        ("2413 Meter", "2.413 Meter"),
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
        ("more than 300", "over 312"),
        ("up to 50", "48"),
        ("up to 50", "at most 48"),
        ("up to 150 km", "a range of 130 km"),
        ("not less than 60 days", "at least 60 days"),
        ("不超过2GB", "至多2GB"),
        ("fiscal 2024", "Q3 FY24 results"),
        ("约4万人", "41,200 people"),
        ("300多人", "312 people"),
        ("World War 2", "World War II"),
        ("three brothers", "John, James and Jack"),
        ("三个城市", "北京、上海和广州"),
        ("三個月", "3个月"),
        ("2400 hectares", "24 km²"),
        ("千分之三", "0.3%"),
        ("第二年办理", "次年"),
        ("30千克", "三十公斤"),
        ("兩萬人", "20,000人"),
        ("5億元", "五亿元"),
        ("六月上旬开工", "工程于6月上旬开工"),
        ("6月开工", "工程于六月上旬开工"),
        ("三月下旬", "3月下旬"),
        ("12月", "十二月"),
        ("in June", "六月"),
        ("15 Feb 19", "on 15 February 2019"),
        ("It was signed on 15 February 2019.", "signed 15 Feb 19."),
        ("born in '85", "born in 1985"),
        ("born in 1985", "born in '85"),
        ("The war lasted four years.", "The war of 1914-1918 was long."),
        ("The war lasted four years.", "It began in 1914 and ended in 1918."),
        ("The shop opens at 12:00.", "The shop opens at noon."),
        ("opens at noon", "opens at 12:00 pm"),
        ("opens at midnight", "opens at 12 am"),
        ("30 minutes", "half an hour"),
        ("half an hour", "30 minutes"),
        ("30分钟", "半小时"),
        ("半小时", "30分钟"),
        ("15分钟", "一刻钟"),
        ("一刻钟", "15分钟"),
        ("90分钟", "一个半小时"),
        ("一个半小时", "1.5小时"),
        ("两年半", "2.5年"),
        ("two weeks", "a fortnight"),
        ("a fortnight", "14 days"),
        ("八十年代", "1980年代"),
        ("1980年代", "八十年代"),
        ("the 1980s", "八十年代"),
        ("八十年代", "1985年"),
        ("二十世纪八十年代", "1980s"),
        ("上世纪80年代", "1980年代"),
        ("1800s", "the 19th century"),
        ("the 19th century", "the 1800s"),
        ("19世纪", "the nineteenth century"),
        ("十九世纪", "19世纪"),
        ("19世纪", "十九世纪"),
        ("70%", "打七折"),
        ("打七折", "70%"),
        ("八折", "8折"),
        ("七五折", "7.5折"),
        ("30% off", "七折"),
        ("七折", "30% off"),
        ("1949年", "民国三十八年"),
        ("民国三十八年", "1949年"),
        ("1900年", "光绪二十六年"),
        ("光绪二十六年", "光绪26年"),
        ("Q3", "the third quarter"),
        ("the third quarter", "Q3"),
        ("第三季度", "Q3"),
        ("三季度", "第三季度"),
        ("百分之三十", "30%"),
        ("30%", "百分之三十"),
        ("三分之一", "33.3%"),
        ("one third of members", "33%"),
        ("三分之一", "1/3"),
        ("a third of voters", "三分之一"),
        ("两百", "200"),
        ("200人", "两百人"),
        ("二〇二〇年", "2020年"),
        ("十五天", "15天"),
        ("15天", "十五天"),
        ("3个月", "三个月"),
        ("六个月", "6个月"),
        ("6个月", "半年"),
        ("半年", "6个月"),
        ("January 1, 2001", "2001-01-01"),
        ("2001-01-01", "January 1, 2001"),
        ("2001年1月1日", "January 1, 2001"),
        ("$1,200 million", "$1.2 billion"),
        ("$1.2 billion", "$1,200 million"),
        ("12,000 people", "twelve thousand people"),
        ("1.2万", "12,000"),
        ("12,000人", "1.2万人"),
        ("下午3点", "15:00"),
        ("三点半", "3:30"),
        ("15时30分", "下午三点半"),
        ("１２個", "12個"),
        ("5斤", "2.5公斤"),
        ("the eighties", "1980s"),
        ("the 1980s", "the eighties"),
        ("2小时", "两个小时"),
        ("两小时", "120分钟"),
        ("三层楼", "3层"),
        ("type 1 diabetes", "type I diabetes"),
        ("用于1型糖尿病", "用于I型糖尿病"),
        ("a level 1 fault", "faults of the first level"),
        ("The meeting lasts 45 minutes.", "three quarters of an hour"),
        ("in the first half of 2020", "2020"),
        ("1999年至2005年", "1999-2005"),
        ("100元", "100 yuan"),
        ("1亿元", "10000万元"),
        ("每周三次", "一周3次"),
        ("第十五条", "第15条"),
        ("7月1号", "July 1"),
        ("20岁", "二十岁"),
        ("5月", "5月20日"),
        ("5 May '99", "1999-05-05"),
        ("$3m", "three million dollars"),
        ("two million", "200万"),
        ("It covers 24 square kilometers.", "2,400 hectares of bog"),
        ("It covers 24 km².", "24 square kilometres"),
        ("面积50平米。", "面积五十平方米。"),
        ("重3.2公斤。", "重3.2千克。"),
        ("违约金为每日0.05%。", "每日按万分之五支付违约金。"),
        ("死亡率为千分之三。", "死亡率为0.3%。"),
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
        ("30磅", "30千克"),
        ("2,400 square kilometres", "2,400 hectares"),
        ("千分之三", "万分之五"),
        ("up to 40 kg", "up to 31.5 kg"),
        ("up to 150 km", "up to 130 km"),
        ("over 250 people", "more than 300 people"),
        ("less than six days", "less than five days"),
        ("超过250人", "超过300人"),
        ("at least 50 days", "no less than 60 days"),
        ("four weeks", "two weeks before 31 March"),
        ("$2.31M", "revenue of $2.31 billion"),
        ("不超过3GB", "不超过2GB"),
        ("fiscal 2023", "Q3 FY24 results"),
        ("at least 5 years", "8 years"),
        ("六月开工", "七月开工"),
        ("6月", "六个月"),
        ("6个月", "三个月"),
        ("六个月", "三个月"),
        ("six months", "three months"),
        ("15 Feb 19", "15 Feb 2018"),
        ("born in '85", "born in 1986"),
        ("The war lasted six years.", "The war of 1914-1918 was long."),
        ("opens at 1:00", "opens at noon"),
        ("40 minutes", "half an hour"),
        ("半小时", "40分钟"),
        ("一刻钟", "20分钟"),
        ("一个半小时", "2小时"),
        ("three weeks", "a fortnight"),
        ("八十年代", "1975年"),
        ("1990年代", "八十年代"),
        ("the 1970s", "八十年代"),
        ("1700s", "the 19th century"),
        ("十八世纪", "19世纪"),
        ("80%", "打七折"),
        ("七折", "八折"),
        ("1950年", "民国三十八年"),
        ("Q3", "the second quarter"),
        ("第二季度", "Q3"),
        ("百分之三十", "35%"),
        ("三分之一", "四分之一"),
        ("one third of members", "25% of members"),
        ("200人", "三百人"),
        ("2021年", "二〇二〇年"),
        ("15天", "十六天"),
        ("5天", "十五天"),
        ("五天", "十五天"),
        ("3个月", "6个月"),
        ("January 1, 2002", "2001-01-01"),
        ("$1,300 million", "$1.2 billion"),
        ("12,000人", "1.3万人"),
        ("下午4点", "15:00"),
        ("三层楼", "4层"),
        ("5 km", "5 miles"),
        ("7 hours", "7 days"),
        ("7天", "7个月"),
        ("type 2 diabetes", "type 1 diabetes"),
        ("type 1 diabetes", "the first-line drug for type 2 diabetes"),
        ("用于1型糖尿病", "用于2型糖尿病"),
        ("iPhone 15", "iPhone 14"),
        ("第十六条", "第15条"),
        ("每周四次", "一周3次"),
        ("1932", "It was built in 1931 and the hall has 1,200 seats"),
        ("20%", "20 km"),
        ("1926年", "民国二十六年"),
        ("at half past six", "17:30"),
        ("1985 members", "85 members"),
        ("It covers 2,400 square kilometres.", "2,400 hectares of bog"),
        ("重3.2吨。", "重3.2千克。"),
        ("重30磅。", "重30千克。"),
        ("违约金为每日千分之三。", "三十日内付款，每日按万分之五支付违约金。"),
        ("by 30 July", "by the last day of July"),
        ("收到五封信", "收到三封信"),
        ("共有三扇门", "共有两扇门"),
        ("七起事故", "三起事故"),
        ("on the last day of April", "on 31 March"),
        ("125 g", "0.125 g"),
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


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("他于2018年回国", "他1998年出国，二十年后回国。"),
        ("他于2020年去世", "他生于1950年，享年70岁。"),
        ("He died in 2020.", "Born in 1950, he died aged 70."),
        ("享年70岁", "生于1950年，2020年去世"),
        ("产量达到200万吨", "产量原为100万吨，去年翻了一番。"),
        ("产量翻了一番", "产量由100万吨增至200万吨"),
        ("Revenue reached $300 million.", "Revenue was $200 million and rose by 50%."),
        ("The deal closed on 9 May.", "The deal closed two days after 7 May."),
        ("The tower is 100 metres tall.", "The tower is 328 feet tall."),
        ("8,848 metres", "29,029 feet"),
        ("160 km", "100 miles"),
        ("aged 70", "1950–2020"),
        ("增长了一倍", "doubled"),
        ("fell to $1.5bn", "fell by 25% from $2 billion"),
    ],
)
def test_what_plainly_follows_from_neighbours_is_had_without_a_judges_word(claim: str, passage: str) -> None:
    assert _is_backed(claim, passage)


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("他于2019年回国", "他1998年出国，二十年后回国。"),
        ("他于2021年去世", "他生于1950年，享年70岁。"),
        ("$320 million", "Revenue was $200 million and rose by 50%."),
        ("The deal closed on 10 May.", "The deal closed two days after 7 May."),
        ("120 metres tall", "328 feet tall"),
    ],
)
def test_what_follows_is_no_other_amount(claim: str, passage: str) -> None:
    assert not _is_backed(claim, passage)


def test_of_a_table_of_numbers_nothing_follows() -> None:
    passage = "Born in 1950, died in 1987. "

    assert _is_backed("He died aged 37.", passage)
    assert not _is_backed("He died aged 37.", passage + " ".join(map(str, range(1_000_000, 1_000_300))))


ENGLISH_UNITS = ["minute", "hour", "day", "week", "fortnight", "month", "year", "decade", "century", "mile", "pound"]
CHINESE_UNITS = [
    "小时",
    "钟头",
    "分钟",
    "世纪",
    "公里",
    "英里",
    "公斤",
    "千克",
    "年",
    "月",
    "天",
    "米",
    "升",
    "斤",
    "吨",
    "磅",
]


@pytest.mark.parametrize("unit", ENGLISH_UNITS)
def test_half_of_a_unit_and_one_of_it_are_read(unit: str) -> None:
    assert facts_in(f"a {unit}, half a {unit}, a {unit} and a half, one and a half {unit}s, half {unit}s").values


@pytest.mark.parametrize("unit", CHINESE_UNITS)
def test_half_of_a_chinese_unit_is_read(unit: str) -> None:
    assert facts_in(f"半{unit}，半个{unit}，一个半{unit}，两{unit}半，三个{unit}半，第一{unit}").values
