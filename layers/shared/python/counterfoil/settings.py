"""What a function is told by its environment: read once, into one frozen model."""

import os
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_network
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import from_json

from counterfoil.errors import InvalidSettingsError
from counterfoil.validation import Problem, validate


def _from_json(value: Any) -> Any:
    """Environment variables that hold a structure hold it as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return from_json(value)
    except TypeError:  # half a surrogate: what Python makes of an environment that is no UTF-8
        raise ValueError("is not UTF-8") from None


def _place(value: str) -> str:
    """A network in the form `10.1.0.0/16`, or `host:port`."""
    if "/" in value:
        ip_network(value)  # a ValueError says what is wrong with it
        return value
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError("must be a network such as 10.1.0.0/16, or host:port")
    return value


class Worker(BaseModel):
    """The part of a worker's row in the table of workers that its own code needs. Durations are seconds."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    timeout: int
    permits: int = Field(default=1, ge=1)
    start_margin: int = Field(default=10, ge=0)
    retries: Literal["redeliver", "requeue"] = "redeliver"
    """Its retry policy: the same message again, or a new one on a queue for retries."""


class Queue(BaseModel):
    """What a function that looks after the queues of others is told of a worker's."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    urls: tuple[str, ...]
    """Of its queue, and of that for retries where it has one."""
    mappings: tuple[UUID, ...]
    """The event source mapping of each, in the same order."""
    gate: int = Field(ge=1)
    """Records that it works on at once, at most."""


class SignIn(BaseModel):
    """Where people sign in to the console, by OpenID Connect, and whose tokens the API takes."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    issuer: str
    """As tokens name it in `iss`."""
    client: str
    """The console's id there; tokens that are made out to it are taken."""
    audience: tuple[str, ...] = ()
    """Others whose tokens are taken, as tokens name them in `aud`."""
    pool: str | None = None
    """The built-in user pool; None: another issuer."""
    discovery: str
    """Address of the issuer's description of itself."""
    origins: tuple[str, ...]
    """What a browser has to reach for it: `https://host`, each."""


class Settings(BaseModel):
    """Every setting, each from the environment variable of the same name in capitals. Durations are seconds."""

    model_config = ConfigDict(frozen=True, defer_build=True, allow_inf_nan=False)

    worker: Annotated[Worker | None, BeforeValidator(_from_json)] = None
    queue_urls: Annotated[dict[str, str], BeforeValidator(_from_json)] = {}
    """Queue URL by worker: those that this function sends to, its own among them."""
    retry_queue_urls: Annotated[dict[str, str], BeforeValidator(_from_json)] = {}
    """URL of the queue for retries by worker: those of `queue_urls` that have one."""
    retry_waits: Annotated[
        dict[str, Annotated[tuple[Annotated[float, Field(ge=0, le=43_200)], ...], Field(min_length=1)]],
        BeforeValidator(_from_json),
    ] = {}
    """Waits before the first, second, ... retry by worker: those of `retry_queue_urls` that have no more retries than
    these."""
    dead_letter_sources: Annotated[dict[str, str], BeforeValidator(_from_json)] = {}
    """Worker by the ARN of its dead-letter queue, for the archiver."""
    mappings: Annotated[dict[str, UUID], BeforeValidator(_from_json)] = {}
    """Event source mappings by worker, that of a queue for retries under the worker's name and `-retry`: those that the
    watchdog may pause, for all of their work needs the model."""
    queues: Annotated[dict[str, Queue], BeforeValidator(_from_json)] = {}
    """Every worker's queues, for those who show and pause them."""
    invoked_functions: Annotated[dict[str, str], BeforeValidator(_from_json)] = {}
    """Name of the Lambda function by worker: those that this function may invoke."""

    database_url: str | None = None
    database_host: str | None = None
    database_port: int = 5432
    database_name: str = "counterfoil"
    database_user: str = "counterfoil_worker"
    database_secret_arn: str | None = None

    lease_seconds: int = Field(default=120, ge=1, lt=300)
    heartbeat_seconds: float = Field(default=30, gt=0)
    redelivery_max_attempts: int = Field(default=3, ge=1)
    """Attempts of a document, in all."""
    retry_max_attempts: int = Field(default=5, ge=0, le=20)
    """Retries of a task that sets no limit itself."""
    retry_redeliver_delays_seconds: Annotated[
        tuple[Annotated[float, Field(ge=0, le=43_200)], ...], BeforeValidator(_from_json), Field(min_length=1)
    ] = (300, 1800)
    """Waits after the first, second, ... failed attempt, none longer than SQS hides a message."""
    retry_base_delay_seconds: float = Field(default=1, ge=0, le=3600)
    """For workers that requeue, the n-th retry waits RETRY_BASE_DELAY_SECONDS * RETRY_EXPONENTIAL_BASE^n, ..."""
    retry_exponential_base: float = Field(default=2, ge=1, le=10)
    retry_jitter_max_seconds: float = Field(default=1, ge=0, le=3600)
    """... and up to this much longer, by chance, ..."""
    retry_max_delay_seconds: float = Field(default=300, ge=0, le=43_200)
    """... but no longer than this."""
    protection_seconds: int = Field(default=300, ge=1)
    """The least that a received message is hidden for; longer than a lease."""
    watchdog_unsent_after_seconds: int = Field(default=60, ge=0)
    watchdog_resend_after_seconds: int = Field(default=900, ge=0)
    watchdog_upload_after_seconds: int = Field(default=3600, ge=0)
    """Age of an upload without a job at which its S3 event counts as lost."""
    dlq_retention_days: int = Field(default=30, ge=1)
    """Days that a dead letter is kept after it was settled. One that waits for a person is kept for ever."""

    secrets_arn: str | None = None
    """A secret of Secrets Manager: JSON with LLM_API_KEY, EMBEDDING_API_KEY and SLACK_WEBHOOK_URL, where the
    environment has none."""
    llm_provider: Literal["anthropic", "openai", "bedrock"] | None = None
    """None: no language model. `openai` is any endpoint that speaks its chat completions."""
    llm_model: str | None = None
    llm_url: str | None = None
    """Base address of the provider's API; None: the provider's own."""
    llm_api_key: SecretStr | None = None
    llm_connect_timeout_seconds: float = Field(default=5, gt=0)
    llm_read_timeout_seconds: float = Field(default=50, gt=0)
    """Longest silence of an answer under way."""
    llm_total_timeout_seconds: float = Field(default=60, gt=0)
    """Longest call."""
    llm_max_tokens: int = Field(default=4096, ge=1)
    """Longest answer."""
    llm_input_usd_per_million_tokens: float = Field(default=0, ge=0)
    llm_output_usd_per_million_tokens: float = Field(default=0, ge=0)
    llm_questions_per_day: int = Field(default=2000, ge=0)
    """Calls for one tenant on a day of UTC, those that fail and those for embeddings among them; beyond, work on
    documents goes on without the model."""
    llm_questions_per_document: int = Field(default=20, ge=0)
    """Of these, calls for one document."""
    llm_retry_base_seconds: float = Field(default=2, ge=0)
    """Wait before the second try of a call; it doubles, up to 8 s."""

    chat_system_prompt: str = "You are a helpful assistant. Answer in the language in which you are spoken to."
    """What the language model is told before each conversation of `chat_completion`."""
    chat_history_tokens: int = Field(default=8000, ge=1)
    """Estimated tokens of that, of a user's message, and of as much as fits of what was said before it."""
    chat_questions_per_day: int = Field(default=2000, ge=0)
    """Calls for one tenant's conversations on a day of UTC, those that fail among them; beyond, messages get no answer.
    They do not count as LLM_QUESTIONS_PER_DAY."""

    embedding_provider: Literal["openai", "bedrock"] | None = None
    """None: documents are not found by what they are about. `openai` is any endpoint that speaks its embeddings."""
    embedding_model: str | None = None
    """On Bedrock: one of Amazon's Titan models."""
    embedding_url: str | None = None
    """Base address of the endpoint; None: OpenAI's own."""
    embedding_api_key: SecretStr | None = None

    ocr: Literal["textract"] | None = None
    """What recognises the characters of scanned pages and images; None: nothing does, and they are kept unread."""

    webhooks: bool = False
    """Whether webhooks can be called from here: the network has a way for them."""
    webhook_allowlist: Annotated[tuple[Annotated[str, AfterValidator(_place)], ...], BeforeValidator(_from_json)] = ()
    """`host:port` or networks that webhooks may call although they are not public, over http too."""
    http_request_allowlist: Annotated[
        tuple[Annotated[str, AfterValidator(_place)], ...], BeforeValidator(_from_json)
    ] = ()
    """The same for tasks that are HTTP requests. The operators of every tenant may call these, and read the answers."""
    uploads_bucket: str | None = None
    """The bucket of uploads, of exports, and of large payloads of tasks."""
    inventory_bucket: str | None = None
    """The bucket of S3 Inventory, which the watchdog reads instead of listing the uploads bucket."""

    http_requests: bool = False
    """Whether tasks may be HTTP requests; they need the way that webhooks need, and go through the same guard."""
    changes_per_second: float = Field(default=25, gt=0)
    """How many requests that change something a tenant may make over HTTP, in the long run; of each of these two
    numbers, one user may take four fifths."""
    changes_at_once: int = Field(default=100, ge=1)
    """How many it may make at once, after a pause."""
    reads_per_second: float = Field(default=50, gt=0)
    """Tokens for reads that a tenant gains per second. A read costs one per 100 ms: 50 are five invocations."""
    reads_at_once: int = Field(default=200, ge=1)
    """Tokens for reads that a tenant has after a pause."""

    slack: bool = False
    """Enables notifications by Slack, whose address is in the secret."""
    slack_webhook_url: SecretStr | None = None
    """Enables notifications by Slack, too."""
    email_from: str | None = None
    """Enables notifications by e-mail, from this address that SES has verified."""
    email_to: Annotated[tuple[str, ...], BeforeValidator(_from_json)] = ()
    """Who hears of every tenant's failures."""
    sign_in: Annotated[SignIn | None, BeforeValidator(_from_json)] = None
    """Of whom serves the console."""
    upload_origins: Annotated[tuple[str, ...], BeforeValidator(_from_json)] = ()
    """Where the console's users upload files to, as origins, where that is not where it is served."""
    console_url: str | None = None
    """Where the console is served; links in notifications lead there."""

    offers_per_user: int = Field(default=5, ge=1, le=1000)
    """Offers that a user gets on a day, at most. This and the next three are as they were when a pool was pinned."""
    offers_candidates: int = Field(default=1000, ge=1, le=100_000)
    """People that are looked at for each user: those who suit by gender and live nearest."""
    offers_most_offered: int | None = Field(default=None, ge=1)
    """To how many users one person may be offered on a day; None: to any number. With it a pool is one shard."""
    offers_repeat_days: int = Field(default=30, ge=0, le=3650)
    """For so many days nobody is offered to the same user again."""
    offers_shard_users: int = Field(default=10_000, ge=1, le=100_000)
    """Users of one shard, which is one piece of work."""

    notification_digest_seconds: float = Field(default=300, ge=0)

    breaker_failures: int = Field(default=5, ge=1)
    """Failures in a row that open a circuit breaker."""
    breaker_open_seconds: float = Field(default=30, gt=0)
    """How long a breaker stays open before one call may try; it doubles with each failed try, up to 10 minutes."""
    breaker_pause_after_seconds: float = Field(default=60, ge=0)
    """How long a breaker is open before the mapping whose whole work depends on it is paused."""

    @model_validator(mode="after")
    def _a_lease_ends_first(self) -> "Settings":
        if self.lease_seconds >= self.protection_seconds:
            raise ValueError("LEASE_SECONDS must be less than PROTECTION_SECONDS, for a lease ends first")
        if self.heartbeat_seconds >= self.lease_seconds:
            raise ValueError("HEARTBEAT_SECONDS must be less than LEASE_SECONDS, or every lease runs out")
        return self

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read the settings.

        Raises:
            InvalidSettingsError: names the variable that is wrong, and why.
        """
        given = {
            name: environment[name.upper()] for name in cls.model_fields if environment.get(name.upper(), "") != ""
        }
        return validate(cls, given, _wrong)

    def require_worker(self) -> Worker:
        """This function's own row.

        Raises:
            InvalidSettingsError: WORKER is not set.
        """
        if self.worker is None:
            raise InvalidSettingsError(
                "WORKER is not set: it holds this function's row of the table of workers, as JSON."
            )
        return self.worker


def _wrong(problem: Problem) -> InvalidSettingsError:
    name = f"{str(problem.place[0]).upper()} is wrong" if problem.place else "Settings contradict each other"
    return InvalidSettingsError(f"{name}: {problem.message.removeprefix('Value error, ')}.")


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read at the first call."""
    return Settings.from_environment(os.environ)
