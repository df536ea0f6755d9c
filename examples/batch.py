"""Judge many rows through the Python client: memory stays flat, a bad row costs no other."""

import os
from collections import Counter
from collections.abc import Iterator

from plumbline import Plumbline

URL = os.environ.get("PLUMBLINE_URL", "http://127.0.0.1:8000")
TOWNS = ("Hallam", "Ostrow", "Pellan", "Quint")


def rows() -> Iterator[dict[str, object]]:
    """Yield rows as a database would; every third answer invents something."""
    for number in range(300):
        town = TOWNS[number % len(TOWNS)]
        fact = f"The ferry to {town} leaves at {6 + number % 12}:40 every day."
        answer = fact if number % 3 else f"{fact} Bicycles travel free of charge on Sundays."
        yield {"custom_id": f"{town}-{number}", "contexts": [fact], "answer": answer}
    yield {"custom_id": "broken", "contexts": ["No answer in this row."]}


def main() -> None:
    """Print how many rows passed, and the first sentences that no context supports."""
    counts: Counter[str] = Counter()
    unsupported: list[str] = []
    with Plumbline(URL) as client:
        for row in client.evaluate_many(rows(), options={"tiers": ["lexical"]}, in_order=True):
            if row.result is None:
                counts["not read"] += 1
                continue
            counts["fully supported" if row.result.scores.unsupported_claims == 0 else "with an unsupported claim"] += 1
            unsupported += [claim.text for claim in row.result.claims if claim.verdict != "supported"]
    for name, count in sorted(counts.items()):
        print(f"{count:4} {name}")
    print("for example:", unsupported[0])


if __name__ == "__main__":
    main()
