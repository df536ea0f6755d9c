"""The Cranfield collection as TREC XML, turned into BEIR's layout, which `plumbline lab` reads.

    python -m benchmarks.cranfield FOLDER OUT

FOLDER holds `cran.all.1400.xml`, `cran.qry.xml` and `cranqrel.trec.txt`. Its judgments number the queries 1 to 225 by
their position; their <num> goes up to 365.
"""

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from html import unescape
from pathlib import Path

from plumbline.retrieval.run import Qrels

FIELDS = ("title", "author", "bib", "text")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    documents, queries, qrels = read_cranfield(given.folder)
    (given.out / "qrels").mkdir(parents=True, exist_ok=True)
    _write(given.out / "corpus.jsonl", ({"_id": name, **fields} for name, fields in documents.items()))
    _write(given.out / "queries.jsonl", ({"_id": name, "text": text} for name, text in queries.items()))
    judged = [f"{query}\t{name}\t{grade}\n" for query, grades in qrels.items() for name, grade in grades.items()]
    (given.out / "cranfield.toml").write_bytes(Path(__file__).with_suffix(".toml").read_bytes())
    (given.out / "qrels" / "test.tsv").write_text("".join(["query-id\tcorpus-id\tscore\n", *judged]), encoding="utf-8")


def read_cranfield(folder: Path) -> tuple[dict[str, dict[str, str]], dict[str, str], Qrels]:
    """Return the fields of each abstract, each query, and the judgments, by id."""
    documents = {}
    for document in re.findall(r"<doc>(.*?)</doc>", (folder / "cran.all.1400.xml").read_text(), re.DOTALL):
        of = {tag: unescape(text).strip() for tag, text in re.findall(r"<(\w+)>(.*?)</\1>", document, re.DOTALL)}
        documents[of["docno"]] = {name: of.get(name, "") for name in FIELDS}
    asked = re.findall(r"<title>(.*?)</title>", (folder / "cran.qry.xml").read_text(), re.DOTALL)
    qrels: dict[str, dict[str, int]] = {}
    for query, _, name, grade in map(str.split, filter(str.strip, (folder / "cranqrel.trec.txt").open())):
        qrels.setdefault(query, {})[name] = int(grade)
    return documents, {str(place): unescape(text).strip() for place, text in enumerate(asked, start=1)}, qrels


def _write(path: Path, lines: Iterable[Mapping[str, str]]) -> None:
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
