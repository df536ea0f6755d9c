"""Rows drawn again and again by whole clusters within their data set, for intervals of any figure of agreement."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt

from plumbline.extras.calibration.weighted import BoolArray, FloatArray, IntArray, SortedRows, sorted_rows
from plumbline.ground.errors import InvalidInput

# Weights held at once: 8 MiB, whatever the numbers of rows and draws.
_CHUNK_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """n scored rows, n >= 1, each field of shape (n,).

    Args:
        scores: finite; in [0, 1] wherever a figure reads them as probabilities.
        labels: 1 for faithful, 0 for not.
        datasets: the data set of each row.
        clusters: rows of one data set and one cluster are drawn together.

    Raises:
        InvalidInput: no row, lengths that differ, a score that is not finite, a label that is neither 1 nor 0.
    """

    scores: FloatArray
    labels: IntArray
    datasets: Sequence[str]
    clusters: Sequence[str]

    def __post_init__(self) -> None:
        lengths = (len(self.scores), len(self.labels), len(self.datasets), len(self.clusters))
        if len(set(lengths)) > 1 or not lengths[0]:
            raise InvalidInput(
                f"expected as many scores as labels, data sets and clusters, one at least, found {lengths}"
            )
        odd = np.flatnonzero(~np.isfinite(self.scores))
        if len(odd):
            raise InvalidInput(f"score {odd[0]} is {self.scores[odd[0]]}; expected finite numbers")
        odd = np.flatnonzero((self.labels != 0) & (self.labels != 1))
        if len(odd):
            raise InvalidInput(f"label {odd[0]} is {self.labels[odd[0]]}; expected 1 (faithful) or 0 (not)")


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """The rows of one data set: the columns `columns` of the weights, and the cluster of each as a number from 0."""

    name: str
    rows: SortedRows
    columns: slice
    cluster_of: IntArray
    clusters: int

    @property
    def has_both_labels(self) -> bool:
        return bool(self.rows.is_faithful.any()) and not bool(self.rows.is_faithful.all())


def by_dataset(scored: ScoredRows) -> tuple[DatasetRows, ...]:
    """The data sets by name; their columns lie side by side, each ascending by score."""
    labels = np.asarray(scored.labels) == 1
    names, dataset_of = np.unique(np.asarray(scored.datasets, dtype=object), return_inverse=True)
    order = np.lexsort((scored.scores, dataset_of))
    ends = np.cumsum(np.bincount(dataset_of))
    clusters = np.asarray(scored.clusters, dtype=object)
    found, start = [], 0
    for name, end in zip(names.tolist(), ends.tolist(), strict=True):
        places = order[start:end]
        found.append(_dataset(name, slice(start, end), scored.scores[places], labels[places], clusters[places]))
        start = end
    return tuple(found)


def draw_weights(datasets: Sequence[DatasetRows], *, draws: int, seed: int) -> Iterator[FloatArray]:
    """How often each row counts: first one row of ones, then `draws` rows in chunks; shape (chunk, columns).

    Clusters are drawn with replacement within their data set (Field & Welsh, JRSS B 2007; the data sets themselves are
    not drawn). What is drawn for a data set depends on the seed, its name and its clusters alone, so that two tiers
    on the same rows are drawn alike and differences between them are paired.
    """
    width = datasets[-1].columns.stop
    yield np.ones((1, width))
    generators = [np.random.default_rng([seed, crc32(each.name.encode("utf-8", "replace"))]) for each in datasets]
    chunk = max(1, _CHUNK_CELLS // width)
    for start in range(0, draws, chunk):
        rows = min(chunk, draws - start)
        weights = np.empty((rows, width))
        for each, generator in zip(datasets, generators, strict=True):
            weights[:, each.columns] = _cluster_counts(generator, rows, each.clusters)[:, each.cluster_of]
        yield weights


def _dataset(
    name: str, columns: slice, scores: FloatArray, labels: BoolArray, clusters: npt.NDArray[np.object_]
) -> DatasetRows:
    # Numbered by name, not by place: the same clusters are drawn in whichever order the scores put the rows.
    names, cluster_of = np.unique(clusters, return_inverse=True)
    return DatasetRows(name, sorted_rows(scores, labels), columns, cluster_of, len(names))


def _cluster_counts(generator: np.random.Generator, rows: int, clusters: int) -> FloatArray:
    drawn = generator.integers(0, clusters, size=(rows, clusters))
    drawn += np.arange(rows)[:, None] * clusters
    return np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters).astype(np.float64)
