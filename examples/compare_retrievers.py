"""Compare two retrievers on the same questions. Needs `pip install '.[retrieval]'`, and no service."""

import re
from collections.abc import Callable, Mapping

import plumbline

DOCUMENTS = {
    "ferry": "The ferry to Hallam leaves at 7:40 every day, and at 9:15 on Sundays.",
    "bridge": "The Marlow Bridge was opened in 1931 and carries two railway tracks.",
    "museum": "The museum of Ostrow shows maps and instruments of the old harbour.",
    "reservoir": "The reservoir holds 320 million cubic metres and protects the valley from floods.",
    "library": "The library lends books, recordings and bicycles to anyone who lives in the valley.",
    "tram": "Trams run between the harbour and the university until midnight.",
}
QUESTIONS = {
    "q1": ("When do ferries leave?", {"ferry": 1}),
    "q2": ("Who opened bridges with railways?", {"bridge": 1}),
    "q3": ("Who lends a recording or a bicycle?", {"library": 1}),
    "q4": ("What protected this from flooding?", {"reservoir": 1}),
    "q5": ("Which museums show instruments?", {"museum": 1}),
    "q6": ("Does a tram run at night?", {"tram": 1}),
    "q7": ("Which bookshop lends to a valley?", {"library": 2, "reservoir": 0}),
    "q8": ("Is there a mapped harbour?", {"museum": 1, "tram": 0}),
}


def words(text: str) -> set[str]:
    """Return the words of a text."""
    return set(re.findall(r"\w+", text.lower()))


def pieces(text: str) -> set[str]:
    """Return the runs of four letters, so that `flooding` finds `floods`."""
    return {word[place : place + 4] for word in words(text) for place in range(max(1, len(word) - 3))}


def search(features: Callable[[str], set[str]]) -> Mapping[str, Mapping[str, float]]:
    """Return the score of each document for each question: the share of the question's features that it has."""
    return {
        name: {
            key: len(features(question) & features(text)) / len(features(question)) for key, text in DOCUMENTS.items()
        }
        for name, (question, _) in QUESTIONS.items()
    }


def main() -> None:
    """Print both means, the difference with its interval, and p."""
    qrels = {name: relevant for name, (_, relevant) in QUESTIONS.items()}
    runs = {"words": search(words), "pieces": search(pieces)}
    for name, run in runs.items():
        print(f"{name:8} mrr {plumbline.retrieval.evaluate(qrels, run, 'mrr'):.3f}")
    (compared,) = plumbline.retrieval.compare(qrels, runs, "mrr", baseline="words")
    low, high = compared.ci95 or (0.0, 0.0)
    print(f"difference {compared.diff:+.3f} [{low:+.3f}, {high:+.3f}], p {compared.p:.3f}, {compared.n} questions")


if __name__ == "__main__":
    main()
