"""The OpenAPI document against the live service: every operation, every check of Schemathesis, at length.

    python benchmarks/openapi.py [--examples 200] [--seed 1]

Phases `examples`, `coverage`, `fuzzing` (so many requests drawn for each operation) and `stateful` (the links of jobs).
Ends with one JSON line, and with 1 where an answer was not as the document says; then what was found stands before it.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.running.openapi_service import fuzzed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = fuzzed(Path(folder), "--max-examples", str(options.examples), "--seed", str(options.seed))
    if run.code:
        print(run.output)
    report = run.report
    found = {
        "schemathesis": report.get("schemathesis_version"),
        "operations": report.get("operations", {}).get("tested"),
        "test_cases": report.get("test_cases", {}).get("generated"),
        "failures": len(report.get("failures", [])),
        "errors": len(report.get("errors", [])),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(found))
    return run.code


if __name__ == "__main__":
    sys.exit(main())
