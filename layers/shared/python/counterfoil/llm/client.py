"""Calls to language models: retries, circuit breaker, schemas and call log.

A tenant's call is logged and counted against the budget of the UTC day before it is made, so calls from a crashed
process are counted. Documents and conversations have separate budgets. Each call gets an id in advance, so it is
counted once even if calls are concurrent or a commit is unacknowledged. Embeddings are handled like other answers.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from threading import Event
from time import monotonic
from typing import Annotated, Generic, LiteralString, Protocol, TypeVar
from uuid import UUID, uuid4

from aws_lambda_powertools import Logger
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from counterfoil.aws import Name, get_secret
from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.errors import (
    BreakerOpenError,
    CancelledError,
    ContextWindowError,
    CounterfoilError,
    DeferredError,
    InvalidLlmResponseError,
    InvalidSettingsError,
    PermanentError,
    RejectedRequestError,
    ServiceUnavailableError,
    safe_message,
)
from counterfoil.llm.answers import ChatTurn, PromptRejectedError, Provider, Reply, extract_text, read
from counterfoil.metrics import Metric, emit
from counterfoil.settings import Settings

CHAT = "chat"
"""Purpose of calls that reply in a conversation."""

logger = Logger()

_BEGIN = """
INSERT INTO llm_call (id, tenant_id, work_id, purpose, provider, model, created_at)
VALUES (%(id)s, %(tenant_id)s, %(work_id)s, %(purpose)s, %(provider)s, %(model)s, %(created_at)s)
ON CONFLICT DO NOTHING RETURNING id
"""

# The row lock makes concurrent calls for the same tenant wait until this transaction ends.
_COUNT = """
INSERT INTO llm_daily_usage (tenant_id, day, calls) VALUES (%(tenant_id)s, %(day)s, 1)
ON CONFLICT (tenant_id, day) DO UPDATE SET calls = llm_daily_usage.calls + 1
RETURNING calls
"""
_COUNT_CHAT = """
INSERT INTO llm_daily_usage (tenant_id, day, calls, chat_calls) VALUES (%(tenant_id)s, %(day)s, 0, 1)
ON CONFLICT (tenant_id, day) DO UPDATE SET chat_calls = llm_daily_usage.chat_calls + 1
RETURNING chat_calls
"""
_CHAT_CALLS = "SELECT chat_calls FROM llm_daily_usage WHERE tenant_id = %s AND day = %s"
_COUNT_DOCUMENT_CALLS = (
    "SELECT count(*) FROM llm_call WHERE work_id = %(work_id)s AND created_at >= %(since)s AND created_at < %(until)s"
)

_END = """
UPDATE llm_call
SET outcome = %(outcome)s, input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s,
    latency_ms = %(latency_ms)s, cost_usd = %(cost_usd)s
WHERE id = %(id)s
"""

# A call without a tenant is a probe: a minimal call that checks whether the service is available.
_INSERT_PROBE = """
INSERT INTO llm_call (id, purpose, provider, model, outcome, input_tokens, output_tokens, latency_ms, cost_usd,
                      created_at)
VALUES (%(id)s, %(purpose)s, %(provider)s, %(model)s, %(outcome)s, %(input_tokens)s, %(output_tokens)s, %(latency_ms)s,
        %(cost_usd)s, %(created_at)s)
ON CONFLICT DO NOTHING
"""


class BudgetExceededError(DeferredError):
    """The budget permits no further call before `until`.

    No call was made. The caller can continue without an answer.
    """


@dataclass(frozen=True)
class Budget:
    """Maximum number of calls per tenant and UTC day."""

    per_tenant: int
    """Maximum number of calls for all documents, including embeddings."""
    per_document: int
    """Maximum number of calls for one document."""
    chats: int
    """Maximum number of calls for all conversations."""

    @classmethod
    def from_settings(cls, settings: Settings) -> "Budget":
        """Return the configured budget."""
        return cls(settings.llm_calls_per_day, settings.llm_calls_per_document, settings.chat_calls_per_day)

    def counts(self, purpose: str) -> Sequence[tuple[LiteralString, int, str]]:
        """Return the counters for a purpose.

        Each has an SQL statement, a maximum and a suffix for error messages.
        """
        if purpose == CHAT:
            return ((_COUNT_CHAT, self.chats, " in conversations"),)
        return ((_COUNT, self.per_tenant, ""), (_COUNT_DOCUMENT_CALLS, self.per_document, " for one document"))


@dataclass(frozen=True)
class _Day:
    """A day in UTC."""

    date: date

    @classmethod
    def from_time(cls, moment: datetime) -> "_Day":
        return cls(moment.astimezone(UTC).date())

    @property
    def since(self) -> datetime:
        return datetime.combine(self.date, time(), UTC)

    @property
    def until(self) -> datetime:
        return self.since + timedelta(days=1)

    def exceeded(self, limit: int, suffix: str) -> BudgetExceededError:
        budget = f"today's call budget of {limit}{suffix}"
        message = f"The language model was not called: {budget} is used up ({self.date:%Y-%m-%d}, UTC)."
        return BudgetExceededError(message, until=self.until)


@dataclass(frozen=True)
class Call:
    """Fields of a call that are known before it is made."""

    id: UUID
    tenant_id: UUID | None
    work_id: UUID | None
    purpose: str
    provider: str
    model: str
    created_at: datetime


@dataclass(frozen=True)
class LlmCallResult:
    """Result of a call. The token counts and the cost are None if there was no reply."""

    outcome: str
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int
    cost_usd: float | None


def check_chat_budget(connection: Connection, tenant_id: UUID, settings: Settings, now: datetime) -> None:
    """Check whether a tenant's budget for conversations permits a call today.

    Does not count a call.

    Raises:
        BudgetExceededError: the budget is used up.
    """
    day = _Day.from_time(now)
    row = connection.execute(_CHAT_CALLS, [tenant_id, day.date]).fetchone()
    ((_, limit, suffix),) = Budget.from_settings(settings).counts(CHAT)
    if (0 if row is None else row[0]) >= limit:
        raise day.exceeded(limit, suffix)


def begin(database: Database, call: Call, budget: Budget) -> None:
    """Log a tenant's call and count it against the budget.

    Does nothing for a call without a tenant.

    Raises:
        BudgetExceededError: the call must not be made. It was neither logged nor counted.
        CounterfoilError: a database error. The call must not be made.
    """
    if call.tenant_id is None:
        return
    try:
        _begin(database, call.tenant_id, call, budget)
    except CommitUnknownError:
        _begin(database, call.tenant_id, call, budget)


def _begin(database: Database, tenant_id: UUID, call: Call, budget: Budget) -> None:
    day = _Day.from_time(call.created_at)
    values = vars(call) | {"day": day.date, "since": day.since, "until": day.until}
    with database.tenant(tenant_id) as connection:
        if connection.execute(_BEGIN, values).fetchone() is None:
            return  # the unacknowledged commit had succeeded
        for statement, limit, suffix in budget.counts(call.purpose):
            ((used,),) = connection.execute(statement, values).fetchall()
            if used > limit:
                raise day.exceeded(limit, suffix)


def end(database: Database, call: Call, result: LlmCallResult) -> None:
    """Record a call's result.

    If that fails, only log the failure, because the answer is more important.
    """
    try:
        try:
            _end(database, call, result)
        except CommitUnknownError:
            _end(database, call, result)
    except CounterfoilError as error:
        logger.warning(
            "The result of a language model call was not recorded", call_id=str(call.id), error=safe_message(error)
        )


def _end(database: Database, call: Call, result: LlmCallResult) -> None:
    if call.tenant_id is None:
        with database.delivery() as connection:
            connection.execute(_INSERT_PROBE, vars(call) | vars(result))
    else:
        with database.tenant(call.tenant_id) as connection:
            connection.execute(_END, {"id": call.id, **vars(result)})


M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

MAX_ATTEMPTS = 3
MAX_BACKOFF_SECONDS = 8.0
MIN_SECONDS_LEFT = 1.0
"""Minimum seconds left to start a call."""
PROBE_SECONDS = 10.0
PROBE_TOKENS = 16

_OUTCOMES: tuple[tuple[type[CounterfoilError], str], ...] = (
    (InvalidLlmResponseError, "invalid_answer"),
    (ContextWindowError, "too_long"),
    (RejectedRequestError, "rejected"),
    (ServiceUnavailableError, "unavailable"),
    (CancelledError, "canceled"),
)


class Breakers(Protocol):
    """Circuit breakers that guard calls. See `circuit_breaker.Breakers`."""

    def guard(self, name: str) -> AbstractContextManager[None]:
        """Return a context for one call to a service."""


@dataclass(frozen=True)
class LlmRequest:
    """A prompt with its purpose and work item.

    `user` may contain untrusted text. `system` and `user` are not logged.
    """

    system: str = field(repr=False)
    user: str = field(repr=False)
    purpose: str
    tenant_id: UUID | None = None
    work_id: UUID | None = None
    history: Sequence[ChatTurn] = field(default=(), repr=False)
    """Earlier messages, oldest first."""
    prompt_version: str = ""
    """Version of `system`. It is part of a cached answer's key."""


_PROBE = LlmRequest("Answer with one word.", "Are you there?", "probe")


@dataclass(frozen=True)
class LlmResponse(Generic[T]):
    """A model's answer, with its temperature and token counts."""

    content: T
    temperature: float | None = None
    """Temperature of the call, or None for the model's default."""
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class LlmLimits:
    """Limits and prices of calls. Prices are in US dollars per million tokens."""

    total_seconds: float
    max_tokens: int
    retry_base_seconds: float
    input_usd: float
    output_usd: float
    budget: Budget


class LlmClient(Protocol):
    """A language model whose answers are parsed with a schema."""

    def complete_json(self, request: LlmRequest, schema: type[M], deadline: Deadline) -> LlmResponse[M]:
        """Return an answer as an instance of `schema`.

        Raises the same errors as `Llm.complete_json`.
        """


class Llm:
    """The language model configured for this stage."""

    def __init__(
        self,
        provider: Provider,
        database: Database,
        breakers: Breakers,
        limits: LlmLimits,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = monotonic,
        wait: Callable[[Event, float], bool] = Event.wait,
    ) -> None:
        """`wait(event, seconds)` returns True if the event occurred within that time."""
        self.provider = provider
        self._database = database
        self._breakers = breakers
        self._limits = limits
        self._clock = clock
        self._monotonic = monotonic
        self._wait = wait

    @classmethod
    def from_settings(cls, settings: Settings, database: Database, breakers: Breakers) -> "Llm | None":
        """Return the configured model, or None if LLM_PROVIDER is not set.

        Create a new instance for each work item. It is cheap to create, and uses the current API key.

        Raises:
            InvalidSettingsError: LLM_MODEL is missing, or LLM_URL is invalid.
            ServiceUnavailableError: there is no usable API key. The error is transient, because the work item did not
                cause it, and an operator can set the key without a deployment.
        """
        provider = _provider(settings)
        if provider is None:
            return None
        limits = LlmLimits(
            settings.llm_total_timeout_seconds,
            settings.llm_max_tokens,
            settings.llm_retry_base_seconds,
            settings.llm_input_usd_per_million_tokens,
            settings.llm_output_usd_per_million_tokens,
            Budget.from_settings(settings),
        )
        return cls(provider, database, breakers, limits)

    def complete_json(self, request: LlmRequest, schema: type[M], deadline: Deadline) -> LlmResponse[M]:
        """Return the model's answer as an instance of `schema`.

        The response also contains the temperature and the token counts.

        Makes up to MAX_ATTEMPTS calls. Pauses are base x 2^n seconds, up to MAX_BACKOFF_SECONDS, or the Retry-After
        delay if that is longer. `deadline` is checked before each call, because calls for superseded work items cost
        money. If the deadline is canceled, a pause ends immediately.

        An answer that does not match the schema counts as a failed call, and is retried. No call starts with less than
        MIN_SECONDS_LEFT seconds remaining. If a failed call opens the breaker, that call's error is raised, because a
        prompt that always fails would otherwise be deferred forever.

        Raises:
            ServiceUnavailableError, InvalidLlmResponseError: the last call failed.
            PromptRejectedError: the model or its API rejects the prompt's content.
            RejectedRequestError, ContextWindowError: no call can succeed.
            BudgetExceededError: the day's budget does not permit another call.
            BreakerOpenError: the breaker is open, and no call was made.
            CancelledError: the deadline was canceled, or leaves too little time for a call.
            StaleClaimError: a newer claim exists.
        """
        return self._complete(request, lambda text: read(text, schema), deadline)

    def chat(self, request: LlmRequest, deadline: Deadline) -> LlmResponse[str]:
        """Return the model's answer as text. Raises the same errors as `complete_json`."""
        return self._complete(request, extract_text, deadline)

    def _complete(self, request: LlmRequest, parse: Callable[[str], T], deadline: Deadline) -> LlmResponse[T]:
        def parse_reply(reply: Reply) -> LlmResponse[T]:
            _check(reply)
            return LlmResponse(parse(reply.text), reply.temperature, reply.input_tokens, reply.output_tokens)

        delay = self._limits.retry_base_seconds
        failure: CounterfoilError | None = None
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            deadline.check()
            if deadline.remaining() < MIN_SECONDS_LEFT:
                raise CancelledError("Not enough time to call the language model")
            try:
                return self._call(
                    request, parse_reply, max_tokens=self._limits.max_tokens, time_left=deadline.remaining
                )
            except BreakerOpenError:
                if failure is None:
                    raise
                raise failure from None
            except (ServiceUnavailableError, InvalidLlmResponseError) as error:
                failure = error
                retry_after = getattr(error, "retry_after", None) or 0.0
                seconds = max(min(delay, MAX_BACKOFF_SECONDS), retry_after)
                if attempts_left == 0 or seconds + MIN_SECONDS_LEFT > deadline.remaining():
                    raise
            if self._wait(deadline.canceled, seconds):
                raise CancelledError("Stopped while waiting to retry the language model")
            delay *= 2
        raise AssertionError  # the last attempt returns or raises

    def probe(self) -> None:
        """Probe the service with a minimal call.

        Raises the same errors as `complete_json`.
        """
        self._call(_PROBE, lambda _reply: None, max_tokens=PROBE_TOKENS, time_left=lambda: PROBE_SECONDS)

    def _call(
        self, request: LlmRequest, use: Callable[[Reply], T], *, max_tokens: int, time_left: Callable[[], float]
    ) -> T:
        """Make one call, guarded by the breaker and recorded in the call log."""
        with self._breakers.guard(f"llm:{self.provider.name}"):
            call = self._begin(request)
            started, outcome = self._monotonic(), "failed"
            reply: Reply | None = None
            try:
                reply = self._reply(request, max_tokens, time_left)
                result = use(reply)
                outcome = "answered"
                return result
            except CounterfoilError as error:
                outcome = next((name for type_, name in _OUTCOMES if isinstance(error, type_)), outcome)
                raise
            finally:
                self._end(call, outcome, reply, self._monotonic() - started)

    def _reply(self, request: LlmRequest, max_tokens: int, time_left: Callable[[], float]) -> Reply:
        total = min(self._limits.total_seconds, time_left())
        try:
            return self.provider.reply(
                request.system, request.user, history=request.history, max_tokens=max_tokens, total=total
            )
        except ServiceUnavailableError:
            if total < self._limits.total_seconds and time_left() <= 0:
                # The invocation ran out of time, which must not open the service's breaker.
                raise CancelledError("The invocation ran out of time before the language model answered") from None
            raise

    def _begin(self, request: LlmRequest) -> Call:
        call = Call(
            uuid4(),
            request.tenant_id,
            request.work_id,
            request.purpose,
            self.provider.name,
            self.provider.model,
            self._clock(),
        )
        try:
            begin(self._database, call, self._limits.budget)
        except BudgetExceededError:
            emit({Metric.LLM_BUDGET_EXCEEDED: 1}, provider=self.provider.name)
            raise
        return call

    def _end(self, call: Call, outcome: str, reply: Reply | None, seconds: float) -> None:
        emit({Metric.LLM_CALLS: 1, Metric.LLM_FAILURES: int(outcome != "answered")}, provider=self.provider.name)
        tokens: tuple[int | None, int | None] = (None, None)
        cost = None
        if reply is not None:
            tokens = reply.input_tokens, reply.output_tokens
            cost_per_million = (
                reply.input_tokens * self._limits.input_usd + reply.output_tokens * self._limits.output_usd
            )
            cost = cost_per_million / 1_000_000
        end(self._database, call, LlmCallResult(outcome, *tokens, round(seconds * 1000), cost))


def _check(reply: Reply) -> None:
    """Raise an error if the reply is incomplete or the model declined to answer."""
    if reply.is_refused:
        raise PromptRejectedError("The language model declined to answer")
    if not reply.is_complete:
        message = f"The answer was truncated at {reply.output_tokens} tokens"
        raise ContextWindowError(message)


def _provider(settings: Settings) -> Provider | None:
    """Return the configured provider, or None. Imports only this provider's module."""
    name = settings.llm_provider
    if name is None:
        return None
    if not settings.llm_model:
        message = f"LLM_MODEL is not set, but LLM_PROVIDER={name} requires it."
        raise InvalidSettingsError(message)
    if name == "bedrock":
        if settings.llm_url is not None:
            raise InvalidSettingsError("LLM_URL is not supported for Bedrock: set AWS_ENDPOINT_URL_BEDROCK_RUNTIME.")
        from counterfoil.llm.bedrock import Bedrock

        return Bedrock(settings.llm_model)
    if settings.llm_url is not None and not settings.llm_url.startswith(("https://", "http://")):
        raise InvalidSettingsError("LLM_URL is invalid: it must be an http or https URL.")
    key = api_key(settings, "LLM_API_KEY", f"LLM_PROVIDER={name}")
    if name == "anthropic":
        from counterfoil.llm.providers import Anthropic

        return Anthropic(settings, settings.llm_model, key)
    from counterfoil.llm.providers import OpenAi

    return OpenAi(settings, settings.llm_model, key)


def api_key(settings: Settings, name: Name, needed_by: str) -> SecretStr:
    """Return an API key.

    Raises:
        ServiceUnavailableError: there is no usable key. The message names `needed_by`, the setting that requires it.
    """
    try:
        key = get_secret(settings, name)
    except PermanentError as error:  # the secret is missing, not readable or invalid
        message = f"{name} could not be read, but {needed_by} requires it: {error}"
        raise ServiceUnavailableError(message) from error
    if key is None:
        message = (
            f"{name} is missing, but {needed_by} requires it: "
            "add it to the secret at SECRETS_ARN, or set it in the environment."
        )
        raise ServiceUnavailableError(message)
    if not (key.get_secret_value().isascii() and key.get_secret_value().isprintable()):
        message = f"{name} is invalid: it contains characters that are not printable ASCII."
        raise ServiceUnavailableError(message)
    return key


EMBEDDING_TIMEOUT_SECONDS = 10.0
"""Timeout of an embedding call. A call usually takes a fraction of a second. Matching can continue without embeddings.
"""
MAX_DIMENSIONS = 16_000
"""Maximum number of dimensions that pgvector's halfvec supports."""


class Vector(BaseModel):
    """Embedding of a text."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, defer_build=True)

    vector: Annotated[list[float], Field(min_length=1, max_length=MAX_DIMENSIONS)]

    @field_validator("vector")
    @classmethod
    def _check_direction(cls, vector: list[float]) -> list[float]:
        if not 0 < math.hypot(*vector) < math.inf:
            raise ValueError("has no direction")
        return vector

    def unit(self) -> list[float]:
        """Return the vector scaled to length 1."""
        length = math.hypot(*self.vector)
        return [component / length for component in self.vector]


def embedding_model_name(settings: Settings) -> str | None:
    """Return the configured embedding model as provider/model.

    Returns None if EMBEDDING_PROVIDER is not set.

    Raises:
        InvalidSettingsError: EMBEDDING_MODEL is missing, or EMBEDDING_URL is invalid.
    """
    provider, url = settings.embedding_provider, settings.embedding_url
    if provider is None:
        return None
    if not settings.embedding_model:
        message = f"EMBEDDING_MODEL is not set, but EMBEDDING_PROVIDER={provider} requires it."
        raise InvalidSettingsError(message)
    if provider == "bedrock" and url is not None:
        raise InvalidSettingsError("EMBEDDING_URL is not supported for Bedrock: set AWS_ENDPOINT_URL_BEDROCK_RUNTIME.")
    if url is not None and not url.startswith(("https://", "http://")):
        raise InvalidSettingsError("EMBEDDING_URL is invalid: it must be an http or https URL.")
    return f"{provider}/{settings.embedding_model}"


def embedding_model(settings: Settings, database: Database, breakers: Breakers) -> Llm:
    """Return the configured embedding model, with the current API key.

    `embedding_model_name` returns its name. Its calls count against the language model's budget. Their cost is not
    recorded.

    Raises:
        ServiceUnavailableError: there is no usable API key.
    """
    limits = LlmLimits(
        min(EMBEDDING_TIMEOUT_SECONDS, settings.llm_total_timeout_seconds),
        0,
        settings.llm_retry_base_seconds,
        0.0,
        0.0,
        Budget.from_settings(settings),
    )
    return Llm(_embedding_provider(settings, settings.embedding_model or ""), database, breakers, limits)


def _embedding_provider(settings: Settings, model: str) -> Provider:
    if settings.embedding_provider == "bedrock":
        from counterfoil.llm.bedrock import BedrockEmbeddings

        return BedrockEmbeddings(model)
    from counterfoil.llm.providers import OpenAiEmbeddings

    return OpenAiEmbeddings(settings, model, api_key(settings, "EMBEDDING_API_KEY", "EMBEDDING_PROVIDER=openai"))
