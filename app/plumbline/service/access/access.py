"""Keys, gate and budgets together, as the service and its workers have them."""

from pathlib import Path

from plumbline.ground.errors import BudgetSpent
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import Usage
from plumbline.service.access.gate import Gate
from plumbline.service.access.key import Limits
from plumbline.service.access.key_file import FILE_NAME as KEYS_NAME
from plumbline.service.access.keyring import Keyring
from plumbline.service.access.spending import Spending
from plumbline.service.access.spending_file import FILE_NAME as SPENDING_NAME


class Access:
    """What one process knows of its callers.

    Attributes:
        keyring: who may call.
        gate: how many requests are under way.
        spending: what was spent today.
    """

    def __init__(self, keyring: Keyring, gate: Gate, spending: Spending) -> None:
        self.keyring = keyring
        self.gate = gate
        self.spending = spending

    def add_call(self, tenant: str, usage: Usage) -> None:
        """Counts a call to a chat model. Of callers without a key only where they have a budget."""
        if tenant or _has_budget(self.keyring.limits_of(tenant)):
            self.spending.add(tenant, usage)

    def check_budget(self, tenant: str) -> None:
        """Raises BudgetSpent when nothing more may be spent for the tenant today."""
        self.spending.check(tenant, self.keyring.limits_of(tenant))

    def pause_reason(self, tenant: str) -> str | None:
        """Why no row of the tenant's jobs may be scored now; None when it may."""
        if self.keyring.is_revoked(tenant):
            return "the key of this job was revoked"
        try:
            self.check_budget(tenant)
        except BudgetSpent as spent:
            return f"{spent}; resume the job then"
        return None


def access_of(settings: Settings) -> Access:
    """The access that the settings describe.

    Raises:
        ConfigurationError: the file of keys cannot be read.
    """
    keyring = Keyring(
        [key.get_secret_value() for key in settings.api_keys],
        key_path(settings),
        defaults=Limits(
            requests_per_minute=settings.key_requests_per_minute,
            concurrency=settings.key_concurrency,
            tokens_per_day=settings.key_tokens_per_day,
            cost_per_day=settings.key_cost_per_day,
        ),
    )
    gate = Gate(max_requests=settings.max_concurrent_requests)
    return Access(keyring, gate, Spending(spending_path(settings)))


def key_path(settings: Settings) -> Path:
    """Where the file of keys is."""
    return settings.keys_file or settings.data_dir / KEYS_NAME


def spending_path(settings: Settings) -> Path:
    """Where it is kept what was spent."""
    return settings.data_dir / SPENDING_NAME


def _has_budget(limits: Limits) -> bool:
    return limits.tokens_per_day is not None or limits.cost_per_day is not None
