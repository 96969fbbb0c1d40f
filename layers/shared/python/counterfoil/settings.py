"""Settings of a Lambda function, read once from its environment."""

import os
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_network
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import from_json

from counterfoil.errors import InvalidSettingsError
from counterfoil.validation import ValidationProblem, validate


def _from_json(value: Any) -> Any:
    """Parse an environment variable that holds JSON."""
    if not isinstance(value, str):
        return value
    try:
        return from_json(value)
    except TypeError:  # Python decodes invalid UTF-8 as lone surrogates
        raise ValueError("is not UTF-8") from None


def _check_allowlist_entry(value: str) -> str:
    """Check a network such as `10.1.0.0/16`, or `host:port`."""
    if "/" in value:
        ip_network(value)  # raises ValueError with the reason
        return value
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError("must be a network such as 10.1.0.0/16, or host:port")
    return value


class WorkerSettings(BaseModel):
    """The part of a worker's row in the worker table that its code reads.

    Durations are in seconds.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    timeout: int
    permits: int = Field(default=1, ge=1)
    start_margin: int = Field(default=10, ge=0)
    retries: Literal["redeliver", "requeue"] = "redeliver"
    """Retry policy: SQS redelivers the message, or a new message goes to the retry queue."""


class QueueSettings(BaseModel):
    """A worker's queues, for functions that measure and pause all queues."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    urls: tuple[str, ...]
    """URL of the queue, followed by that of the retry queue if the worker has one."""
    mappings: tuple[UUID, ...]
    """The event source mapping of each queue, in the same order."""
    limit: int = Field(ge=1)
    """Concurrency limit. The name is short because a function's environment has a limit of 4 KB."""


class OidcSettings(BaseModel):
    """OpenID Connect issuer that signs in users of the console.

    The API accepts its tokens.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    issuer: str
    """The `iss` claim of tokens."""
    client: str
    """Client id of the console, which is the audience of tokens."""
    audience: tuple[str, ...] = ()
    """Other accepted values of the `aud` claim."""
    pool: str | None = None
    """Id of the built-in user pool, or None for another issuer."""
    discovery: str
    """URL of the issuer's discovery document."""
    origins: tuple[str, ...]
    """Origins that the browser contacts to sign in, such as `https://host`."""


class Settings(BaseModel):
    """Settings from environment variables with the same names in upper case.

    Durations are in seconds.
    """

    model_config = ConfigDict(frozen=True, defer_build=True, allow_inf_nan=False)

    worker: Annotated[WorkerSettings | None, BeforeValidator(_from_json)] = None
    queue_urls: Annotated[dict[str, str], BeforeValidator(_from_json)] = {}
    """Queue URL by worker, for every queue to which this function sends, including its own."""
    retry_queue_urls: Annotated[dict[str, str], BeforeValidator(_from_json)] = {}
    """Retry queue URL by worker, for the workers in `queue_urls` that have one."""
    retry_delays: Annotated[
        dict[str, Annotated[tuple[Annotated[float, Field(ge=0, le=43_200)], ...], Field(min_length=1)]],
        BeforeValidator(_from_json),
    ] = {}
    """Delays before the first, second, ... retry, by worker. Their number is the maximum number of retries."""
    dead_letter_sources: Annotated[dict[str, str], BeforeValidator(_from_json)] = {}
    """Worker by ARN of its dead-letter queue, for the archiver."""
    mappings: Annotated[dict[str, UUID], BeforeValidator(_from_json)] = {}
    """Event source mappings of workers whose work items all require the language model. The watchdog disables them
    while the model is unavailable. The key is the worker's name, with the suffix `-retry` for its retry queue."""
    queues: Annotated[dict[str, QueueSettings], BeforeValidator(_from_json)] = {}
    """Queues of every worker, for functions that show and pause them."""
    invoked_functions: Annotated[dict[str, str], BeforeValidator(_from_json)] = {}
    """Names of the Lambda functions that this function may invoke, by worker."""

    database_url: str | None = None
    database_host: str | None = None
    database_port: int = 5432
    database_name: str = "counterfoil"
    database_user: str = "counterfoil_worker"
    database_secret_arn: str | None = None

    lease_seconds: int = Field(default=120, ge=1, lt=300)
    heartbeat_interval_seconds: float = Field(default=30, gt=0)
    redelivery_max_attempts: int = Field(default=3, ge=1)
    """Maximum number of attempts per work item with the retry policy `redeliver`."""
    retry_max_attempts: int = Field(default=5, ge=0, le=20)
    """Maximum number of retries of a task without its own limit."""
    redelivery_delays_seconds: Annotated[
        tuple[Annotated[float, Field(ge=0, le=43_200)], ...], BeforeValidator(_from_json), Field(min_length=1)
    ] = (300, 1800)
    """Delays after the first, second, ... failed attempt, up to SQS's maximum visibility timeout. The last one
    repeats."""
    retry_base_delay_seconds: float = Field(default=1, ge=0, le=3600)
    """With the retry policy `requeue`, the delay before the n-th retry is RETRY_BASE_DELAY_SECONDS *
    RETRY_EXPONENTIAL_BASE^n, unless RETRY_DELAYS contains the worker."""
    retry_exponential_base: float = Field(default=2, ge=1, le=10)
    retry_jitter_max_seconds: float = Field(default=1, ge=0, le=3600)
    """Maximum jitter that is added to this delay, and to delays that a service requests."""
    retry_max_delay_seconds: float = Field(default=300, ge=0, le=43_200)
    """Maximum of this delay including jitter, unless a service requests a longer one."""
    min_visibility_seconds: int = Field(default=300, ge=1)
    """Minimum visibility timeout of a message in progress. It must exceed the lease."""
    outbox_overdue_seconds: int = Field(default=60, ge=0)
    resend_after_seconds: int = Field(default=900, ge=0)
    watchdog_upload_after_seconds: int = Field(default=3600, ge=0)
    """Age at which the S3 event of an upload without a job is considered lost."""
    dlq_retention_days: int = Field(default=30, ge=1)
    """Retention of closed dead letters in days. Pending dead letters are not deleted."""

    secrets_arn: str | None = None
    """Secret in Secrets Manager: a JSON object with LLM_API_KEY, EMBEDDING_API_KEY and SLACK_WEBHOOK_URL. Environment
    variables take precedence."""
    llm_provider: Literal["anthropic", "openai", "bedrock"] | None = None
    """None disables the language model. `openai` is any endpoint with an OpenAI-compatible chat completions API."""
    llm_model: str | None = None
    llm_url: str | None = None
    """Base URL of the provider's API, or None for the default URL."""
    llm_api_key: SecretStr | None = None
    llm_connect_timeout_seconds: float = Field(default=5, gt=0)
    llm_read_timeout_seconds: float = Field(default=50, gt=0)
    """Maximum wait for the next part of an answer."""
    llm_total_timeout_seconds: float = Field(default=60, gt=0)
    """Maximum duration of a call."""
    llm_max_tokens: int = Field(default=4096, ge=1)
    """Maximum length of an answer in tokens."""
    llm_input_usd_per_million_tokens: float = Field(default=0, ge=0)
    llm_output_usd_per_million_tokens: float = Field(default=0, ge=0)
    llm_calls_per_day: int = Field(default=2000, ge=0)
    """Maximum calls per tenant and UTC day, including failed calls and embeddings. After that, documents are processed
    without the model."""
    llm_calls_per_document: int = Field(default=20, ge=0)
    """Maximum calls per document."""
    llm_retry_base_seconds: float = Field(default=2, ge=0)
    """Delay before the first retry of a call. It doubles with each retry, up to 8 seconds, or the provider's
    Retry-After delay if that is longer."""

    chat_system_prompt: str = "You are a helpful assistant. Answer in the language in which you are spoken to."
    """System prompt of `chat_completion` tasks."""
    chat_history_tokens: int = Field(default=8000, ge=1)
    """Maximum estimated tokens per prompt: system prompt, user message, and as many of the latest messages as fit."""
    chat_calls_per_day: int = Field(default=2000, ge=0)
    """Maximum calls for conversations per tenant and UTC day, including failed calls. After that, user messages get no
    reply. These calls do not count toward LLM_CALLS_PER_DAY."""

    embedding_provider: Literal["openai", "bedrock"] | None = None
    """None disables embeddings. `openai` is any endpoint with an OpenAI-compatible embeddings API."""
    embedding_model: str | None = None
    """Model id. On Bedrock, the model must be an Amazon Titan model."""
    embedding_url: str | None = None
    """Base URL of the endpoint, or None for OpenAI's URL."""
    embedding_api_key: SecretStr | None = None

    ocr_provider: Literal["textract"] | None = None
    """OCR service for scanned pages and images. None stores them without text."""

    webhooks_enabled: bool = False
    """Whether the network allows calls to webhooks."""
    webhook_allowlist: Annotated[
        tuple[Annotated[str, AfterValidator(_check_allowlist_entry)], ...], BeforeValidator(_from_json)
    ] = ()
    """Private destinations that webhooks may call, also over HTTP. Each entry is a network or `host:port`."""
    http_request_allowlist: Annotated[
        tuple[Annotated[str, AfterValidator(_check_allowlist_entry)], ...], BeforeValidator(_from_json)
    ] = ()
    """Private destinations that HTTP request tasks may call. Operators of every tenant can read the responses."""
    uploads_bucket: str | None = None
    """Bucket for uploads, exports, and large task payloads."""
    inventory_bucket: str | None = None
    """Bucket with S3 Inventory reports, which the watchdog reads instead of listing the uploads bucket."""

    http_request_tasks_enabled: bool = False
    """Whether tasks can be HTTP requests, which use the network path and address policy of webhooks."""
    rate_limit_per_second: float = Field(default=25, gt=0)
    """Rate limit for changes through the API, per tenant. Each user can use at most 80% of it."""
    rate_limit_burst: int = Field(default=100, ge=1)
    """Burst of changes per tenant."""
    reads_per_second: float = Field(default=50, gt=0)
    """Rate limit for reads per tenant. A unit is 100 ms of computing time, so 50 allows five concurrent invocations."""
    reads_at_once: int = Field(default=200, ge=1)
    """Burst of reads per tenant."""

    slack_enabled: bool = False
    """Whether the secret contains SLACK_WEBHOOK_URL, which enables Slack notifications."""
    slack_webhook_url: SecretStr | None = None
    """Webhook URL that enables Slack notifications."""
    email_from: str | None = None
    """Sender address, verified by SES, that enables email notifications."""
    alert_emails: Annotated[tuple[str, ...], BeforeValidator(_from_json)] = ()
    """Recipients of notifications about all tenants."""
    oidc: Annotated[OidcSettings | None, BeforeValidator(_from_json)] = None
    """Set only for the function that serves the console."""
    upload_origins: Annotated[tuple[str, ...], BeforeValidator(_from_json)] = ()
    """Origins of upload URLs that differ from the console's origin."""
    console_url: str | None = None
    """URL of the console, for links in notifications."""

    offers_per_user: int = Field(default=5, ge=1, le=1000)
    """Maximum offers per user and day. A pinned pool stores this setting and the next three."""
    offers_max_candidates: int = Field(default=1000, ge=1, le=100_000)
    """Maximum candidates per user: the nearest users with a compatible gender."""
    offers_max_exposure: int | None = Field(default=None, ge=1)
    """Exposure cap: how many users per day may be offered the same user. None means no cap. A capped pool has one shard
    per 50,000 users."""
    offers_repeat_interval_days: int = Field(default=30, ge=0, le=3650)
    """Minimum days before the same user is offered to a user again."""
    offers_shard_size: int = Field(default=10_000, ge=1, le=100_000)
    """Maximum users per shard. A shard is one work item."""

    notification_digest_interval_seconds: float = Field(default=300, ge=0)

    breaker_failure_threshold: int = Field(default=5, ge=1)
    """Number of consecutive failures after which a circuit breaker opens."""
    breaker_open_seconds: float = Field(default=30, gt=0)
    """Time before an open breaker becomes half-open. It doubles with each failed probe, up to 10 minutes."""
    breaker_pause_after_seconds: float = Field(default=60, ge=0)
    """Outage duration of a service after which the queues of workers that require it are paused."""

    @model_validator(mode="after")
    def _check_lease_durations(self) -> "Settings":
        if self.lease_seconds >= self.min_visibility_seconds:
            raise ValueError("LEASE_SECONDS must be less than MIN_VISIBILITY_SECONDS, because leases must expire first")
        if self.heartbeat_interval_seconds >= self.lease_seconds:
            raise ValueError("HEARTBEAT_INTERVAL_SECONDS must be less than LEASE_SECONDS, because leases would expire")
        return self

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read the settings.

        Raises:
            InvalidSettingsError: a variable is invalid. The message names it.
        """
        values = {
            name: environment[name.upper()] for name in cls.model_fields if environment.get(name.upper(), "") != ""
        }
        return validate(cls, values, _invalid_setting)

    def require_worker(self) -> WorkerSettings:
        """Return this function's row of the worker table.

        Raises:
            InvalidSettingsError: WORKER is not set.
        """
        if self.worker is None:
            raise InvalidSettingsError(
                "WORKER is not set. It must contain this function's row of the worker table as JSON."
            )
        return self.worker


def _invalid_setting(problem: ValidationProblem) -> InvalidSettingsError:
    name = f"{str(problem.location[0]).upper()} is invalid" if problem.location else "Conflicting settings"
    return InvalidSettingsError(f"{name}: {problem.message.removeprefix('Value error, ')}.")


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return the settings of this process, read at the first call."""
    return Settings.from_environment(os.environ)
