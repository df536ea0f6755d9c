"""Units that a number may carry: which are the same, which are a fixed multiple of another."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as so many (`factor`) of its dimension's own."""

    dimension: str
    factor: float


PERCENT = Unit("percent", 1.0)
_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_YEAR = 365.25 * _DAY

# Only what is trivially equal: no miles in kilometres, no exchange rates.
_NAMES: dict[tuple[str, float], str] = {
    ("percent", 1.0): "% percent per-cent pct 个百分点",
    ("length", 1_000.0): "km kilometre kilometres kilometer kilometers 公里 千米",
    ("length", 1.0): "m metre metres meter meters 米",
    ("length", 0.01): "cm centimetre centimetres centimeter centimeters 厘米",
    ("length", 0.001): "mm millimetre millimetres millimeter millimeters 毫米",
    ("foot", 5_280.0): "mile miles 英里",
    ("foot", 3.0): "yard yards yd 码",
    ("foot", 1.0): "ft foot feet 英尺",
    ("foot", 1 / 12): "inch inches 英寸",
    ("mass", 1_000_000.0): "tonne tonnes 吨",
    ("mass", 1_000.0): "kg kilo kilos kilogram kilograms kilogramme kilogrammes 公斤 千克",
    ("mass", 1.0): "g gram grams gramme grammes 克",
    ("mass", 0.001): "mg milligram milligrams 毫克",
    ("pound", 1.0): "lb lbs 磅",
    ("volume", 1.0): "l litre litres liter liters 升",
    ("volume", 0.001): "ml millilitre millilitres milliliter milliliters 毫升",
    ("time", 1.0): "s sec secs seconds 秒 秒钟",
    ("time", _MINUTE): "min mins minute minutes 分钟",
    ("time", _HOUR): "h hr hrs hour hours 小时 个小时",
    ("time", _DAY): "day days 天",
    ("time", 7 * _DAY): "week weeks 周 星期 个星期",
    ("time", _YEAR / 12): "month months 个月",
    ("time", _YEAR): "year years yr yrs 年",
    ("time", 10 * _YEAR): "decade decades",
    ("time", 100 * _YEAR): "century centuries 个世纪",
    ("bytes", 1e3): "kb",
    ("bytes", 1e6): "mb",
    ("bytes", 1e9): "gb",
    ("bytes", 1e12): "tb",
    ("celsius", 1.0): "°c 摄氏度",
    ("fahrenheit", 1.0): "°f 华氏度",
    ("dollar", 1.0): "$ us$ usd dollar dollars 美元",
    ("dollar", 0.01): "cent cents 美分",
    ("euro", 1.0): "€ eur euro euros 欧元",
    ("pound sterling", 1.0): "£ gbp 英镑",
    ("yuan", 1.0): "rmb cny yuan 元 人民币 元人民币",
    ("yen", 1.0): "jpy yen 日元",
}
UNIT_BY_NAME = {name: Unit(*key) for key, names in _NAMES.items() for name in names.split()}
UNIT_BY_NAME["per cent"] = PERCENT
_ASCII = sorted((name for name in UNIT_BY_NAME if name.isascii() and name[-1].isalpha()), key=len, reverse=True)
_OTHER = sorted((name for name in UNIT_BY_NAME if not name.isascii() or name == "%"), key=len, reverse=True)
# After a number; a letter must not go on after the name of a unit, a Han character may.
UNIT_AFTER = re.compile(
    rf"[ -]?(?P<unit>(?:{'|'.join(re.escape(name) for name in _ASCII)})(?![a-z])"
    rf"|{'|'.join(re.escape(name) for name in _OTHER)})"
)
UNIT_BEFORE = re.compile(r"(?P<unit>us\$|usd|rmb|cny|eur|gbp|[$€£])\s?\Z")
