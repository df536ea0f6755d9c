"""How an experiment is told of, to a person and to a program."""

import io
import json

from plumbline.cli.progress import LabProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def tell(stream: io.StringIO, *, is_quiet: bool = False) -> str:
    teller = LabProgress(stream, is_quiet=is_quiet)
    teller.tell("begun", systems=3)
    teller.tell("progress", name="c.whole.a", stage="building")
    teller.tell("progress", name="c.whole.a", stage="searching")
    teller.tell("done", name="c.whole.a", was_there=False)
    teller.tell("done", name="c.whole.b", was_there=True)
    teller.tell("failed", name="c.whole.c", detail="no room")
    teller.close()
    return stream.getvalue()


def test_a_program_reads_a_line_for_each_stage_and_each_end() -> None:
    said = [json.loads(line) for line in tell(io.StringIO()).splitlines()]

    assert [each["event"] for each in said] == ["begun", "progress", "progress", "done", "done", "failed"]
    assert said[2] == {"event": "progress", "name": "c.whole.a", "stage": "searching"}
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
