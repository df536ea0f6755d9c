"""How an experiment is told of, to a person and to a program."""

import io
import json
import re
from functools import partial

from plumbline.cli.progress import LabProgress
from plumbline.extras.lab.report.table import PARTS, PageLanguage, translate
from plumbline.rows.report.texts import load_words


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def tell(stream: io.StringIO, *, is_quiet: bool = False, language: PageLanguage = "en") -> str:
    words = load_words(language, PARTS)
    teller = LabProgress(stream, is_quiet=is_quiet, words=words, say=partial(translate, language=language))
    teller.steps(3)
    teller.stage("c.whole.a", "building")
    for done in range(50):
        teller.stage("c.whole.a", "searching", done, 50)
    teller.done("c.whole.a", was_there=False)
    teller.done("c.whole.b", was_there=True)
    teller.failed("c.whole.c", "no room")
    teller.close()
    return stream.getvalue()


def test_a_program_reads_a_line_for_each_stage_and_each_end() -> None:
    said = [json.loads(line) for line in tell(io.StringIO()).splitlines()]

    assert [each["event"] for each in said] == ["begun", "progress", "progress", "done", "done", "failed"]
    assert said[2] == {
        "event": "progress",
        "name": "c.whole.a",
        "stage": "searching",
        "done": 0,
        "total": 50,
        "eta_seconds": None,
    }
    assert [each["was_there"] for each in said if each["event"] == "done"] == [False, True]
    assert said[-1] == {"event": "failed", "name": "c.whole.c", "detail": "no room"}


def test_a_person_sees_how_many_are_done_and_what_became_of_each() -> None:
    shown = tell(Terminal())

    assert "0/3 systems" in shown
    assert "c.whole.a: building" in shown
    assert "c.whole.a: done\n" in shown
    assert "c.whole.b: was there\n" in shown
    assert "c.whole.c: failed: no room\n" in shown


def test_who_wants_quiet_has_it() -> None:
    assert tell(io.StringIO(), is_quiet=True) == ""


def test_a_chinese_reader_sees_chinese_beside_names() -> None:
    said = tell(Terminal(), language="zh")

    assert "c.whole.a: 完成" in said
    assert "c.whole.b: 已有结果" in said
    assert "c.whole.c: 失败" in said
    assert "检索" in said
    assert not re.findall(r"system|search|build|done|left|failed", said)
