"""One question to a language model: tries, waits, the breaker, the form of the answer, and the record of each call."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event
from time import monotonic
from typing import Generic, Protocol, TypeVar
from uuid import UUID, uuid4

from pydantic import BaseModel, SecretStr

from counterfoil.db import Database
from counterfoil.errors import (
    BreakerOpenError,
    CancelledError,
    ContextWindowError,
    CounterfoilError,
    InvalidAnswerError,
    InvalidSettingsError,
    PermanentError,
    RejectedRequestError,
    ServiceUnavailableError,
)
from counterfoil.llm import calls
from counterfoil.llm.answers import read, words
from counterfoil.llm.provider import Provider, RefusedQuestionError, Reply, Turn
from counterfoil.metrics import Metric, record
from counterfoil.secrets import Name, secret
from counterfoil.settings import Settings

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

TRIES = 3
LONGEST_PAUSE_SECONDS = 8.0
LEAST_SECONDS = 1.0
"""A call is not begun with less time than this: it would only be cut off."""
PROBE_SECONDS = 10.0
PROBE_TOKENS = 16

_OUTCOMES: tuple[tuple[type[CounterfoilError], str], ...] = (
    (InvalidAnswerError, "invalid_answer"),
    (ContextWindowError, "too_long"),
    (RejectedRequestError, "rejected"),
    (ServiceUnavailableError, "unavailable"),
    (CancelledError, "cancelled"),
)


class Breakers(Protocol):
    """The circuit breakers."""

    def guard(self, name: str) -> AbstractContextManager[None]:
        """Around one call to a service."""


@dataclass(frozen=True)
class Question:
    """What is asked, what for, and for which work. `user` may hold untrusted text; neither part is logged."""

    system: str = field(repr=False)
    user: str = field(repr=False)
    purpose: str
    tenant_id: UUID | None = None
    work_id: UUID | None = None
    history: Sequence[Turn] = field(default=(), repr=False)
    """What was said before, oldest first."""


_PROBE = Question("Answer with one word.", "Are you there?", "probe")


@dataclass(frozen=True)
class Answered(Generic[T]):
    """An answer, and how it was come by."""

    said: T
    temperature: float | None = None
    """That the model was told; None: its own."""
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class Limits:
    """Bounds and prices. Seconds; US dollars for a million tokens."""

    total_seconds: float
    max_tokens: int
    retry_base_seconds: float
    input_usd: float
    output_usd: float
    budget: calls.Budget


class Asks(Protocol):
    """What those see of a language model who put questions to it."""

    def ask(
        self,
        question: Question,
        answer: type[M],
        *,
        time_left: Callable[[], float],
        cancelled: Event,
        check: Callable[[], None],
    ) -> M:
        """An answer in this form. Raises as `Llm.ask`."""


class Consults(Protocol):
    """What those see of a language model who keep how an answer was come by, too."""

    def consult(
        self,
        question: Question,
        answer: type[M],
        *,
        time_left: Callable[[], float],
        cancelled: Event,
        check: Callable[[], None],
    ) -> Answered[M]:
        """An answer in this form. Raises as `Llm.ask`."""


class Llm:
    """The language model of this stage."""

    def __init__(
        self,
        provider: Provider,
        database: Database,
        breakers: Breakers,
        limits: Limits,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = monotonic,
        wait: Callable[[Event, float], bool] = Event.wait,
    ) -> None:
        """`wait(event, seconds)` says whether the event came before the seconds were over."""
        self.provider = provider
        self._database = database
        self._breakers = breakers
        self._limits = limits
        self._clock = clock
        self._monotonic = monotonic
        self._wait = wait

    @classmethod
    def from_settings(cls, settings: Settings, database: Database, breakers: Breakers) -> "Llm | None":
        """The model that the settings name; None where LLM_PROVIDER is not set.

        It is cheap to make, and has the key as it is now: make it anew for each piece of work.

        Raises:
            InvalidSettingsError: LLM_MODEL is missing, or LLM_URL is none.
            ServiceUnavailableError: there is no key that can be used. No work is to blame for that, and a person who
                fills it in needs no deployment.
        """
        provider = _provider(settings)
        if provider is None:
            return None
        limits = Limits(
            settings.llm_total_timeout_seconds,
            settings.llm_max_tokens,
            settings.llm_retry_base_seconds,
            settings.llm_input_usd_per_million_tokens,
            settings.llm_output_usd_per_million_tokens,
            calls.Budget.from_settings(settings),
        )
        return cls(provider, database, breakers, limits)

    def ask(
        self,
        question: Question,
        answer: type[M],
        *,
        time_left: Callable[[], float],
        cancelled: Event,
        check: Callable[[], None] = lambda: None,
    ) -> M:
        """The model's answer, in the form of `answer`. TRIES calls at most, with pauses of base x 2^n between.

        `check` is called before each of them, and raises where the caller must not go on: nobody pays for answers to
        work that somebody else has. `cancelled` ends a pause at once.

        An answer in another form is a failed try: the next one may be good. No try is begun, and no pause made, for
        which `time_left` (seconds) is too short. A breaker that opens after a try has failed ends them with that
        failure: a question that always fails, and opens the breaker itself, would else never be over.

        Raises:
            ServiceUnavailableError, InvalidAnswerError: the last try failed so.
            RefusedQuestionError: the model, or its API, declines what the question says.
            RejectedRequestError, ContextWindowError: no try can succeed.
            BudgetSpentError: a day's budget does not last for this call, and no more calls were made.
            BreakerOpenError: the service has failed too often of late, and no call was made.
            CancelledError: `cancelled` was set, or there is no time left to ask at all.
            CounterfoilError: what `check` raises.
        """
        return self.consult(question, answer, time_left=time_left, cancelled=cancelled, check=check).said

    def consult(
        self,
        question: Question,
        answer: type[M],
        *,
        time_left: Callable[[], float],
        cancelled: Event,
        check: Callable[[], None] = lambda: None,
    ) -> Answered[M]:
        """As `ask`: the answer, and how it was come by."""

        def use(reply: Reply) -> Answered[M]:
            _check(reply)
            said = read(reply.text, answer)
            return Answered(said, reply.temperature, reply.input_tokens, reply.output_tokens)

        return self._answered(question, use, time_left, cancelled, check)

    def converse(
        self,
        question: Question,
        *,
        time_left: Callable[[], float],
        cancelled: Event,
        check: Callable[[], None] = lambda: None,
    ) -> Answered[str]:
        """As `consult`, for an answer in the model's own words.

        Raises:
            CounterfoilError: as `ask`; an InvalidAnswerError says that the answer is empty.
        """

        def use(reply: Reply) -> Answered[str]:
            _check(reply)
            return Answered(words(reply.text), reply.temperature, reply.input_tokens, reply.output_tokens)

        return self._answered(question, use, time_left, cancelled, check)

    def _answered(
        self,
        question: Question,
        use: Callable[[Reply], T],
        time_left: Callable[[], float],
        cancelled: Event,
        check: Callable[[], None],
    ) -> T:
        pause = self._limits.retry_base_seconds
        failure: CounterfoilError | None = None
        for tries_left in reversed(range(TRIES)):
            check()
            if cancelled.is_set() or time_left() < LEAST_SECONDS:
                raise CancelledError("There is no time left to ask the language model")
            try:
                return self._call(question, use, max_tokens=self._limits.max_tokens, time_left=time_left)
            except BreakerOpenError:
                if failure is None:
                    raise
                raise failure from None
            except (ServiceUnavailableError, InvalidAnswerError) as error:
                failure = error
                asked_for = getattr(error, "retry_after", None) or 0.0
                seconds = max(min(pause, LONGEST_PAUSE_SECONDS), asked_for)
                if tries_left == 0 or seconds + LEAST_SECONDS > time_left():
                    raise
            if self._wait(cancelled, seconds):
                raise CancelledError("Stopped while waiting to ask the language model again")
            pause *= 2
        raise AssertionError  # the last try returns or raises

    def probe(self) -> None:
        """The smallest possible call, once: whether the service is there. Raises as `ask`."""
        self._call(_PROBE, lambda _reply: None, max_tokens=PROBE_TOKENS, time_left=lambda: PROBE_SECONDS)

    def _call(
        self, question: Question, use: Callable[[Reply], T], *, max_tokens: int, time_left: Callable[[], float]
    ) -> T:
        """One call behind the breaker, put on record."""
        with self._breakers.guard(f"llm:{self.provider.name}"):
            call = self._begin(question)
            began, outcome = self._monotonic(), "failed"
            reply: Reply | None = None
            try:
                reply = self._reply(question, max_tokens, time_left)
                found = use(reply)
                outcome = "answered"
                return found
            except CounterfoilError as error:
                outcome = next((name for kind, name in _OUTCOMES if isinstance(error, kind)), outcome)
                raise
            finally:
                self._end(call, outcome, reply, self._monotonic() - began)

    def _reply(self, question: Question, max_tokens: int, time_left: Callable[[], float]) -> Reply:
        total = min(self._limits.total_seconds, time_left())
        try:
            return self.provider.reply(
                question.system, question.user, history=question.history, max_tokens=max_tokens, total=total
            )
        except ServiceUnavailableError:
            if total < self._limits.total_seconds and time_left() <= 0:
                # Cut off by our own lack of time, which says nothing about the service and must not open its breaker.
                raise CancelledError("The time was over before the language model had answered") from None
            raise

    def _begin(self, question: Question) -> calls.Call:
        call = calls.Call(
            uuid4(),
            question.tenant_id,
            question.work_id,
            question.purpose,
            self.provider.name,
            self.provider.model,
            self._clock(),
        )
        try:
            calls.begin(self._database, call, self._limits.budget)
        except calls.BudgetSpentError:
            record({Metric.LLM_OVER_BUDGET: 1}, provider=self.provider.name)
            raise
        return call

    def _end(self, call: calls.Call, outcome: str, reply: Reply | None, seconds: float) -> None:
        record({Metric.LLM_CALLS: 1, Metric.LLM_FAILURES: int(outcome != "answered")}, provider=self.provider.name)
        tokens: tuple[int | None, int | None] = (None, None)
        cost = None
        if reply is not None:
            tokens = reply.input_tokens, reply.output_tokens
            spent = reply.input_tokens * self._limits.input_usd + reply.output_tokens * self._limits.output_usd
            cost = spent / 1_000_000
        calls.end(self._database, call, calls.End(outcome, *tokens, round(seconds * 1000), cost))


def _check(reply: Reply) -> None:
    """Raise where what was said is no whole answer."""
    if reply.is_refused:
        raise RefusedQuestionError("The language model declined to answer")
    if not reply.is_complete:
        message = f"The answer was cut off, at {reply.output_tokens} tokens"
        raise ContextWindowError(message)


def _provider(settings: Settings) -> Provider | None:
    """The provider by its settings; each is imported only where it is used."""
    name = settings.llm_provider
    if name is None:
        return None
    if not settings.llm_model:
        message = f"LLM_MODEL is not set, and LLM_PROVIDER={name} needs it."
        raise InvalidSettingsError(message)
    if name == "bedrock":
        if settings.llm_url is not None:
            raise InvalidSettingsError("LLM_URL is not for Bedrock: AWS_ENDPOINT_URL_BEDROCK_RUNTIME is.")
        from counterfoil.llm.bedrock import Bedrock

        return Bedrock(settings.llm_model)
    if settings.llm_url is not None and not settings.llm_url.startswith(("https://", "http://")):
        raise InvalidSettingsError("LLM_URL is wrong: it must be an address of http or https.")
    key = key_of(settings, "LLM_API_KEY", f"LLM_PROVIDER={name}")
    if name == "anthropic":
        from counterfoil.llm.anthropic import Anthropic

        return Anthropic(settings, settings.llm_model, key)
    from counterfoil.llm.openai import OpenAi

    return OpenAi(settings, settings.llm_model, key)


def key_of(settings: Settings, name: Name, needed_by: str) -> SecretStr:
    """The key of an API.

    Raises:
        ServiceUnavailableError: there is none that can be used, and which setting needs it.
    """
    try:
        key = secret(settings, name)
    except PermanentError as error:  # the secret is not there, not to be read, or not what it should be
        message = f"{name} could not be read, and {needed_by} needs it: {error}"
        raise ServiceUnavailableError(message) from error
    if key is None:
        message = (
            f"{name} is missing, and {needed_by} needs it: "
            "fill it into the secret of SECRETS_ARN, or set it in the environment."
        )
        raise ServiceUnavailableError(message)
    if not (key.get_secret_value().isascii() and key.get_secret_value().isprintable()):
        message = f"{name} is wrong: it has characters that no key has."
        raise ServiceUnavailableError(message)
    return key
