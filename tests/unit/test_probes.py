"""Floor of the probes in tier lexical: false twins that pass, true twins that fail, made-up details that are caught."""

from benchmarks.probes import decide, read_rows

# Kinds of which a false twin has a link, code, time or sign that no context has.
MADE_UP = {"link", "code", "sign", "clock"}


def test_few_true_twins_fail_no_false_one_passes_and_made_up_details_are_caught() -> None:
    decided = decide(read_rows("probes"), ("lexical",))

    made_up = [each for each in decided if not each.is_true and each.row["kind"] in MADE_UP]
    assert sum(each.is_true and each.outcome == "fail" for each in decided) <= 2
    assert not [each.row["id"] for each in decided if not each.is_true and each.outcome == "pass"]
    assert sum(each.outcome == "fail" for each in made_up) >= 0.8 * len(made_up)
