"""The report on many rows: lines of results in, a summary, a page, Markdown and JUnit XML out. Pure.

builder = ReportBuilder(worst=200, baseline=None)      # app.report.building
for line in lines: builder.add(line)                   # bytes of one row, as `schemas.rows` has it
report = builder.report()                              # Report; .summary is `schemas.report.ReportSummary`
build_report(lines, worst=200, baseline_lines=None)    # the same in one call

render_html(report, language="en", title=None)         # app.report.page -> str
markdown_summary(report, gates=(), language="en")      # app.report.markdown -> str
junit_xml(report, gates=(), suite="plumbline")         # app.report.junit -> bytes
parse_gate("faithfulness=0.8") -> Gate; gate.outcomes(summary) -> tuple[GateOutcome, ...]   # app.report.gates
"""
