"""Fuzzes one parser: python -m benchmarks.fuzz {segmentation,trec,replies,evidence} [--minutes 10] [--seed 1]

With atheris (the extra `fuzz`) inputs are guided by the branches of `app` that they take; without it they are made by
chance. An input counts as a fault when the parser raises what it does not declare, breaks a promise that the target
checks, or takes over 2 s of CPU. Each fault is told once and its input kept in `--findings`. Exit status 1 with faults.

    python -m benchmarks.fuzz evidence --input FILE     tries one kept input again, with the whole traceback
"""

import argparse
import importlib
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from benchmarks.fuzz.running import Fuzzing, fuzz_at_random, fuzz_with_atheris

TARGETS = ("segmentation", "trec", "replies", "evidence")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=10.0, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs (default: %(default)s)")
    parser.add_argument("--findings", type=Path, help="folder of the inputs at fault (default: a new one)")
    parser.add_argument("--input", type=Path, help="one input to try instead")
    options = parser.parse_args()
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        atheris = None
    guided = atheris is not None and options.input is None
    with atheris.instrument_imports(include=["plumbline"]) if guided and atheris else nullcontext():
        target = importlib.import_module(f"benchmarks.fuzz.{options.target}")
    if options.input:
        target.check(options.input.read_bytes())
        return 0
    folder = options.findings or Path(tempfile.mkdtemp(prefix=f"fuzz-{options.target}-"))
    fuzzing = Fuzzing(target.check, folder)
    seconds = 60 * options.minutes
    print(f"{options.target}, {'guided by atheris' if atheris else 'by chance'}, seed {options.seed}", flush=True)
    if atheris:
        corpus = Path(tempfile.mkdtemp(prefix="corpus-"))
        fuzz_with_atheris(atheris, fuzzing, target.SEEDS, seconds=seconds, seed=options.seed, corpus=corpus)
    return fuzz_at_random(fuzzing, target.SEEDS, seconds=seconds, seed=options.seed)


if __name__ == "__main__":
    sys.exit(main())
