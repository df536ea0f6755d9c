"""The one way by which every integration judges: a running service, or this process."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

from plumbline.client import Plumbline
from plumbline.client.row import Rows
from plumbline.client.samples import OptionFields
from plumbline.ground.service_address import explain_missing_service, find_url
from plumbline.rows.records.reading import read_sample
from plumbline.schemas.evaluation import EvaluationResult

if TYPE_CHECKING:
    from plumbline.integrations.local_plumbline import LocalPlumbline


EvaluationClient: TypeAlias = "Plumbline | LocalPlumbline"


def open_client(url: str | None = None) -> "EvaluationClient":
    """Return the client of `url`, or of PLUMBLINE_URL, else the judges of this process; raise ConfigurationError."""
    if (found := find_url(url)) is not None:
        return Plumbline(found)
    with explain_missing_service():
        from plumbline.integrations.local_plumbline import LocalPlumbline  # noqa: PLC0415 - seconds, and an extra
    return LocalPlumbline()


def evaluate(
    *,
    contexts: Iterable[str],
    answer: str,
    question: str = "",
    reference: str | None = None,
    **options: Unpack[OptionFields],
) -> EvaluationResult:
    """Return the result of one answer, by the service of PLUMBLINE_URL, or else by this process.

    It opens and closes what judges; for many answers open a `Checker` or a `Plumbline` once.

    Args:
        options: as of `Plumbline.evaluate`.

    Raises:
        ConfigurationError: there is no address, and the service is not installed here; or settings are wrong.
        ClientError: the service cannot be reached, or refuses.
    """
    with Checker() as checker:
        return checker.check(answer, contexts, question=question, reference=reference, **options)


class Checker:
    """Judges answers with one choice of options; opened at the first answer, used from several threads.

    Args:
        url: of a running service; None: PLUMBLINE_URL, else this process. The key: PLUMBLINE_API_KEY.
        client: replaces both.
        options: as of `Plumbline.evaluate`.
    """

    def __init__(
        self, url: str | None = None, *, client: "EvaluationClient | None" = None, **options: Unpack[OptionFields]
    ) -> None:
        self._url = url
        self._client = client
        self._options = options

    @property
    def client(self) -> "EvaluationClient":
        if self._client is None:
            self._client = open_client(self._url)
        return self._client

    def check(
        self,
        answer: str,
        contexts: Iterable[str],
        *,
        question: str = "",
        reference: str | None = None,
        **options: Unpack[OptionFields],
    ) -> EvaluationResult:
        """Return the result of one answer; raises as `Plumbline.evaluate`."""
        if isinstance(contexts, str):
            contexts = [contexts]
        chosen: OptionFields = {**self._options, **options}
        return self.client.evaluate(contexts=contexts, answer=answer, question=question, reference=reference, **chosen)

    def check_fields(self, fields: Mapping[str, object]) -> EvaluationResult:
        """Return the result of a row whose texts are found by their names, as in a file; raise InvalidInput if not."""
        sample = read_sample(fields)
        return self.check(sample.answer, sample.contexts, question=sample.question, reference=sample.reference)

    def check_many(self, samples: Iterable[dict[str, Any]]) -> Rows[dict[str, Any]]:
        """Yield a row for each sample (question, contexts, answer, reference, custom_id), in their order."""
        return self.client.evaluate_many(samples, options=self._options, in_order=True)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
