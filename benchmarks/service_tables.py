"""Print the benchmark of the service as the Markdown tables of docs/explanation/performance.md."""

from collections.abc import Mapping, Sequence
from typing import Any

_WAYS = {
    "default": "by sample, default threads",
    "one_thread": "by sample, one thread",
    "one_by_one": "text by text",
    "threads": "8 threads, one model",
}
# Of the library's batched call over the service, in CPU seconds.
_AIMED_AT = {"fp32": 1.9, "bf16": 4.5}


def tables(found: Mapping[str, Any]) -> str:
    """A table for each scenario that there are figures of."""
    parts = []
    if "a" in found:
        parts += [_throughput("Samples that share nothing", found["a"]), _batched(found["a"], str(found["encoder"]))]
    for name, title in (
        ("distinct_answers", "20 answers share their contexts"),
        ("shared_sentences", "20 answers share their contexts, and 80 % of their sentences"),
    ):
        if "b" in found:
            parts.append(_throughput(title, found["b"][name]))
    for letter, write in (("c", _spread), ("d", _isolation), ("e", _fairness), ("f", _memory)):
        if letter in found:
            parts.append(write(found[letter]))
    return "\n\n".join(parts)


def _batched(found: Mapping[str, Any], encoder: str) -> str:
    """Return the ratio of CPU time, batched call of the library to service, beside its target."""
    precision = "bf16" if "bf16" in encoder else "fp32"
    ratios = ", ".join(
        f"{_cell(each['default'])} ({count})"
        for count, each in found["bare_cpu_over_service"].items()
        if not found["service"][count].get("failed")
    )
    return (
        f"The library's batched call, default threads, takes this many times the CPU of the whole service "
        f"(samples at a time): {ratios}. Aimed at in {precision}: {_AIMED_AT[precision]}. The service: {encoder}."
    )


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; floats with three significant digits, nothing for None."""
    lines = [header, ["---"] * len(header), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _throughput(title: str, found: Mapping[str, Any]) -> str:
    rows: list[list[object]] = []
    for concurrency, figures in found["service"].items():
        ratios = found["bare_cpu_over_service"][concurrency]
        rows.append([f"service, {concurrency} at a time", *_figures(figures), *(ratios[way] for way in _WAYS)])
    for way, figures in found["bare"].items():
        rows.append([f"`encode` {_WAYS[way]}", *_figures(figures), *([None] * len(_WAYS))])
    header = [title, "samples/s", "p50 ms", "p99 ms", "CPU s a sample", *(f"x {name}" for name in _WAYS.values())]
    return table(header, rows) + _failed(found["service"])


def _figures(figures: Mapping[str, float]) -> list[object]:
    names = ("samples_per_second", "p50_ms", "p99_ms", "cpu_seconds_per_sample")
    return [figures.get(name) for name in names]


def _spread(found: Mapping[str, Any]) -> str:
    small = found["small"]
    rows: list[list[object]] = [
        [f"small, {concurrency} at a time", *_figures(figures)] for concurrency, figures in small.items()
    ]
    ratios = table(
        ["", "32 against 1"],
        [
            ["throughput of small samples", found["throughput_32_over_1"]],
            ["CPU of small samples, 1 over 32", found["cpu_1_over_32"]],
            ["p99 / p50 of small samples at 32", found["p99_over_p50_small"]],
            ["p99 / p50 of typical samples at 32", found["p99_over_p50_typical"]],
        ],
    )
    first = table(["1 context and 1 answer of a sentence", "samples/s", "p50 ms", "p99 ms", "CPU s a sample"], rows)
    return f"{first}\n\n{ratios}{_failed(small)}"


def _isolation(found: Mapping[str, Any]) -> str:
    rows: list[list[object]] = [
        [
            {"llm": "tier llm, over the judge's 200 ms"}.get(kind, kind),
            *(found[state][kind][name] for name in ("p50_ms", "p99_ms") for state in ("idle", "saturated")),
            found["p99_saturated_minus_idle_ms"][kind],
            found["saturated"][kind]["requests"],
        ]
        for kind in found["idle"]
    ]
    header = ["ms", "p50 idle", "p50 saturated", "p99 idle", "p99 saturated", "p99 more", "requests"]
    shares = found["shares_of_a_core"]
    cores: list[list[object]] = [
        [state, *(figures[name] for name in ("service", "judge", "driver", "driver_waited_for_core"))]
        for state, figures in shares.items()
    ]
    names = ["cores used", "service", "scripted judge", "this benchmark", "this benchmark stood in line"]
    return f"{table(header, rows)}\n\n{table(names, cores)}{_failed({**found['idle'], **found['saturated']})}"


def _fairness(found: Mapping[str, Any]) -> str:
    rows: list[list[object]] = [
        [name.replace("_", " "), found[name]["p50_ms"], found[name]["p99_ms"]]
        for name in ("small_alone", "small_meanwhile", "large_alone", "large_meanwhile")
    ]
    sent = f"{found['small_sent_while_large_under_way']} of {found['small_sent']} small samples"
    ratio = _cell(found["p99_meanwhile_over_alone"])
    return (
        table(["ms", "p50", "p99"], rows) + f"\n\n{sent} were sent while one of {found['large_sentences']} sentences "
        f"was under way; their p99 is {ratio} times that alone."
    )


def _memory(found: Mapping[str, float]) -> str:
    return table(["start and memory", ""], [[name.replace("_", " "), value] for name, value in found.items()])


def _failed(figures: Mapping[str, Mapping[str, float]]) -> str:
    count = sum(int(each.get("failed", 0)) for each in figures.values())
    return f"\n\n**{count} requests were not answered as wanted.**" if count else ""
