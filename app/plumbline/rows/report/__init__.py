"""The report on many rows: lines of results in, a summary, a page, Markdown and JUnit XML out. Pure.

    building  ReportBuilder(worst=200, baseline=None): .add(line) for each, then .report() -> Report
              build_report(lines, worst=200, baseline_lines=None) -> Report, the same in one call
    baseline  Baseline(lines): what a file is compared with
    page      render_html(report, language="en", title=None, gates=(), made_at=None) -> str
    markdown  markdown_summary(report, gates=(), language="en", title=None, rows=10) -> str
    junit     junit_xml(report, gates=(), suite="plumbline") -> bytes
    gates     parse_gate("faithfulness=0.8").outcomes(report.summary), max_degraded_outcome, baseline_outcomes

`Report.summary` is `schemas.report.ReportSummary`. A line is the bytes of one row, as `schemas.batch` has it.
"""
