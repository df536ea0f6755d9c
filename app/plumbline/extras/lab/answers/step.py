"""The answers of each system asked for, and judged, so that retrieval and faithfulness stand in one table."""

from collections.abc import Mapping, Sequence

from plumbline.extras.lab.answers.asking import answered, questions
from plumbline.extras.lab.answers.kept_lines import KeptLines
from plumbline.extras.lab.answers.scores import scored
from plumbline.extras.lab.corpus import Corpus
from plumbline.extras.lab.experiment import Answers, Experiment, Planned, ProgressReporter
from plumbline.extras.lab.folder import ResultsFolder
from plumbline.ground.errors import PlumblineError

Figures = Mapping[str, float | None]


def answer_figures(
    experiment: Experiment, folder: ResultsFolder, done: Sequence[Planned], progress: ProgressReporter
) -> tuple[dict[str, Figures], dict[str, str]]:
    """By system what the service says of its answers, and of those that could not be had, why; none when not asked for.

    Raises:
        InvalidInput: a corpus or a run cannot be read.
    """
    answers = experiment.answers
    found: dict[str, Figures] = {}
    failures: dict[str, str] = {}
    meant = [each for each in done if answers is not None and _is_meant(each, answers)]
    for name in dict.fromkeys(each.corpus for each in meant):
        corpus = experiment.corpora[name].read(name, experiment.base)
        for planned in meant:
            if planned.corpus != name or answers is None:
                continue
            try:
                found[planned.name] = _figures(planned, experiment, answers, folder, corpus=corpus, progress=progress)
            except PlumblineError as error:
                failures[f"{planned.name} (answers)"] = str(error)
                progress.failed(f"{planned.name} (answers)", str(error))
    return found, failures


def _is_meant(planned: Planned, answers: Answers) -> bool:
    return not answers.systems or any(planned.goes_by(name) for name in answers.systems)


def _figures(
    planned: Planned,
    experiment: Experiment,
    answers: Answers,
    folder: ResultsFolder,
    *,
    corpus: Corpus,
    progress: ProgressReporter,
) -> Figures:
    name, chunking = planned.name, experiment.chunkings[planned.chunking]
    wanted = list(questions(planned, folder, corpus=corpus, chunking=chunking, k=answers.k))
    with KeptLines(folder.answers(name)) as kept, KeptLines(folder.scores(name)) as scores:
        told = answered(wanted, answers, kept, lambda done, total: progress.stage(name, "answering", done, total))
        return scored(wanted, told, answers, scores, lambda done, total: progress.stage(name, "scoring", done, total))
