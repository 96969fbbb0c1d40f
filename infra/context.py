"""Settings of a deployment in CDK's context: `-c name=value`.

| context | value |
|---|---|
| `stage` | `aws` or `local` |
| `databaseUrl` | local: URL of the embedded server |
| `endpoint` | local: URL of the emulator |
| `timeout` | local: maximum timeout in seconds of every worker with event source mappings |
| `settings` | a JSON object of environment variables for every function; values are strings |
| `alarms` | a JSON object of thresholds by alarm name |
| `retention` | AWS: a JSON object of days by prefix of the uploads bucket, and `noncurrent` for replaced versions |
| `inventory` | AWS: `true` if the watchdog reads S3 Inventory instead of listing the uploads bucket |
| `secretArn` | AWS: ARN of an existing secret in Secrets Manager to use instead of a new one |
| `enableSlack` | AWS: `true` if notifications go to a Slack webhook, whose URL is in the secret |
| `issuer`, `audience` | issuer and audience of the API's tokens, both or neither; the default is a new user pool |
| `mailDomain` | AWS: the domain for which Amazon SES receives the tenants' mail |
| `enableWebhooks` | AWS: `true` if results may be delivered to webhooks, which requires internet access |
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from infra.alarm_table import THRESHOLDS
from infra.worker_table import SOURCE_PREFIXES, ExternalService, WorkerSpec

PROVIDERS = ("anthropic", "openai", "bedrock")
EMBEDDING_PROVIDERS = ("openai", "bedrock")
RECOGNITIONS = ("textract",)
SECRETS = frozenset({"EMBEDDING_API_KEY", "LLM_API_KEY", "SLACK_WEBHOOK_URL"})
"""Settings that must be in Secrets Manager on AWS, because context values appear unencrypted in files and templates."""
STACK_SETTINGS = frozenset(
    {
        "DATABASE_HOST",
        "DATABASE_NAME",
        "DATABASE_PORT",
        "DATABASE_SECRET_ARN",
        "DATABASE_URL",
        "DATABASE_USER",
        "DEAD_LETTER_SOURCES",
        "INVENTORY_BUCKET",
        "MAPPINGS",
        "QUEUES",
        "QUEUE_URLS",
        "INVOKED_FUNCTIONS",
        "RETRY_QUEUE_URLS",
        "RETRY_DELAYS",
        "SECRETS_ARN",
        "OIDC",
        "SLACK_ENABLED",
        "UPLOADS_BUCKET",
        "UPLOAD_ORIGINS",
        "WEBHOOKS_ENABLED",
        "WORKER",
    }
)
"""Settings that the stack sets for each function."""
TUNABLE = frozenset(
    {
        "BREAKER_FAILURE_THRESHOLD",
        "BREAKER_OPEN_SECONDS",
        "BREAKER_PAUSE_AFTER_SECONDS",
        "RATE_LIMIT_BURST",
        "RATE_LIMIT_PER_SECOND",
        "CHAT_HISTORY_TOKENS",
        "CHAT_CALLS_PER_DAY",
        "CHAT_SYSTEM_PROMPT",
        "CONSOLE_URL",
        "EMAIL_FROM",
        "ALERT_EMAILS",
        "EMBEDDING_MODEL",
        "EMBEDDING_PROVIDER",
        "EMBEDDING_URL",
        "HEARTBEAT_INTERVAL_SECONDS",
        "HTTP_REQUEST_TASKS_ENABLED",
        "HTTP_REQUEST_ALLOWLIST",
        "LEASE_SECONDS",
        "LLM_CONNECT_TIMEOUT_SECONDS",
        "LLM_INPUT_USD_PER_MILLION_TOKENS",
        "LLM_MAX_TOKENS",
        "LLM_MODEL",
        "LLM_OUTPUT_USD_PER_MILLION_TOKENS",
        "LLM_PROVIDER",
        "LLM_CALLS_PER_DAY",
        "LLM_CALLS_PER_DOCUMENT",
        "LLM_READ_TIMEOUT_SECONDS",
        "LLM_RETRY_BASE_SECONDS",
        "LLM_TOTAL_TIMEOUT_SECONDS",
        "LLM_URL",
        "NOTIFICATION_DIGEST_INTERVAL_SECONDS",
        "OCR_PROVIDER",
        "OFFERS_MAX_CANDIDATES",
        "OFFERS_MAX_EXPOSURE",
        "OFFERS_PER_USER",
        "OFFERS_REPEAT_INTERVAL_DAYS",
        "OFFERS_SHARD_SIZE",
        "MIN_VISIBILITY_SECONDS",
        "READS_AT_ONCE",
        "READS_PER_SECOND",
        "RETRY_BASE_DELAY_SECONDS",
        "RETRY_EXPONENTIAL_BASE",
        "RETRY_JITTER_MAX_SECONDS",
        "REDELIVERY_MAX_ATTEMPTS",
        "RETRY_MAX_ATTEMPTS",
        "RETRY_MAX_DELAY_SECONDS",
        "REDELIVERY_DELAYS_SECONDS",
        "RESEND_AFTER_SECONDS",
        "OUTBOX_OVERDUE_SECONDS",
        "WATCHDOG_UPLOAD_AFTER_SECONDS",
        "DLQ_RETENTION_DAYS",
        "WEBHOOK_ALLOWLIST",
    }
)
"""Settings that a deployment may change."""
NONCURRENT = "noncurrent"
"""Key in `retention` for replaced and deleted object versions under SOURCE_PREFIXES."""


_TRUE = {"1", "on", "t", "true", "y", "yes"}
_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


class ContextError(ValueError):
    """The context is invalid. The message states the required value."""


@dataclass(frozen=True)
class Issuer:
    """OpenID Connect issuer of the API's tokens."""

    url: str
    """Issuer URL, the claim `iss`."""
    audience: str
    """Client id, the claim `aud`."""


@dataclass(frozen=True)
class ExternalServices:
    """Services outside the VPC that a deployment calls.

    Without services on the internet, the deployment has neither internet access nor a secret.
    """

    settings: Mapping[str, str]
    slack: bool = False
    """Whether notifications go to a Slack webhook. Its URL is in the secret."""
    webhooks: bool = False
    """Whether results may be delivered to tenants' webhooks."""

    @property
    def bedrock(self) -> bool:
        """True if Bedrock serves the language model or the embeddings.

        Functions call it with their role.
        """
        return "bedrock" in self.models.values()

    @property
    def email(self) -> bool:
        """True if SES sends notifications."""
        return "EMAIL_FROM" in self.settings

    @property
    def textract(self) -> bool:
        """True if Amazon Textract is used for OCR."""
        return self.settings.get("OCR_PROVIDER") == "textract"

    @property
    def internet(self) -> bool:
        """True if a service on the internet is called."""
        return self.secret or self.webhooks

    @property
    def secret(self) -> bool:
        """True if a service requires the secret.

        Secrets of tenants' webhooks are in the database.
        """
        return bool(self._internet_models) or self.slack

    @property
    def models(self) -> Mapping[ExternalService, str]:
        """Provider of each kind of model in use."""
        provider_settings: dict[ExternalService, str] = {"llm": "LLM_PROVIDER", "embeddings": "EMBEDDING_PROVIDER"}
        return {kind: self.settings[name] for kind, name in provider_settings.items() if name in self.settings}

    @property
    def _internet_models(self) -> frozenset[str]:
        return frozenset(kind for kind, provider in self.models.items() if provider != "bedrock")

    def needs_internet(self, row: WorkerSpec) -> bool:
        """Return whether `row` calls a service on the internet."""
        return self.needs_secret(row) or self.calls_webhooks(row)

    def needs_secret(self, row: WorkerSpec) -> bool:
        """Return whether `row` calls a service that requires the secret."""
        return not self._internet_models.isdisjoint(row.external_services) or self.notifies_slack(row)

    def notifies_slack(self, row: WorkerSpec) -> bool:
        """Return whether `row` sends notifications to the Slack webhook."""
        return self.slack and "notifications" in row.external_services

    def calls_webhooks(self, row: WorkerSpec) -> bool:
        """Return whether `row` delivers results to tenants' webhooks."""
        return self.webhooks and "webhooks" in row.external_services


@dataclass(frozen=True)
class Deployment:
    """A deployment's settings."""

    stage: str
    database_url: str | None
    endpoint: str | None
    timeout: int | None
    settings: Mapping[str, str]
    alarms: Mapping[str, float]
    retention: Mapping[str, int]
    """Retention in days, by prefix or NONCURRENT."""
    inventory: bool
    secret_arn: str | None
    slack: bool
    webhooks: bool
    mail_domain: str | None
    issuer: Issuer | None

    @classmethod
    def of(cls, read: Callable[[str], Any]) -> "Deployment":
        """Validate the context whose values `read` returns by name.

        Raises:
            ContextError: a setting is unknown, missing or invalid.
        """
        stage = stage_of(read("stage"))
        if stage == "local" and not read("databaseUrl"):
            raise ContextError(
                "The local stage requires a database: add -c databaseUrl=postgresql://user@127.0.0.1:PORT/name"
            )
        if stage == "local" and not read("endpoint"):
            raise ContextError("The local stage requires the emulator: add -c endpoint=http://127.0.0.1:PORT")
        settings = _settings(stage, _object("settings", read("settings")))
        webhooks = _flag("enableWebhooks", read("enableWebhooks"))
        if stage == "aws" and not webhooks and settings.get("HTTP_REQUEST_TASKS_ENABLED", "").lower() in _TRUE:
            raise ContextError("HTTP_REQUEST_TASKS_ENABLED requires internet access: add -c enableWebhooks=true")
        inventory = _flag("inventory", read("inventory"))
        if inventory and stage == "local":
            raise ContextError("The context 'inventory' is for AWS: the local cloud has no S3 Inventory")
        return cls(
            stage=stage,
            database_url=read("databaseUrl"),
            endpoint=read("endpoint"),
            timeout=_timeout(stage, read("timeout")),
            settings=settings,
            alarms=_thresholds(_object("alarms", read("alarms"))),
            retention=_retention(_object("retention", read("retention"))),
            inventory=inventory,
            secret_arn=_arn(read("secretArn")),
            slack=_flag("enableSlack", read("enableSlack")),
            webhooks=webhooks,
            mail_domain=_domain(stage, read("mailDomain")),
            issuer=_issuer(read("issuer"), read("audience")),
        )


def stage_of(value: Any) -> str:
    """Return the stage for the context setting `stage`, by default `aws`.

    Raises:
        ContextError: the value is neither aws nor local.
    """
    stage = value or "aws"
    if stage not in {"aws", "local"}:
        raise ContextError(f"Unknown stage {stage!r}: omit it for AWS, or use -c stage=local")
    return str(stage)


def _object(name: str, value: Any) -> dict[str, Any]:
    """Return a JSON object.

    The value is text on the command line, and an object in cdk.json.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ContextError(f"The context {name!r} must be a JSON object: {error.msg} at {error.pos}") from None
    if value is not None and not isinstance(value, dict):
        raise ContextError(f"The context {name!r} must be a JSON object, such as {{}}")
    return value or {}


def _flag(name: str, value: Any) -> bool:
    text = str(value).lower()
    if value is not None and text not in {"true", "false"}:
        raise ContextError(f"The context {name!r} must be true or false, not {value!r}")
    return text == "true"


def _arn(value: Any) -> str | None:
    if value is not None and not str(value).startswith("arn:"):
        raise ContextError(f"The context 'secretArn' must be the complete ARN of a secret, not {value!r}")
    return None if value is None else str(value)


def _issuer(url: Any, audience: Any) -> Issuer | None:
    if url is None and audience is None:
        return None
    if not str(url).startswith("https://") or not audience:
        raise ContextError("Set both 'issuer' (an https:// URL, the tokens' iss claim) and 'audience', or neither")
    return Issuer(str(url), str(audience))


def _domain(stage: str, value: Any) -> str | None:
    if value is None:
        return None
    if stage == "local":
        raise ContextError(
            "The context 'mailDomain' is for AWS: in the local cloud, use 'counterfoil ingest' to add mail to the inbox"
        )
    if not _DOMAIN.fullmatch(str(value)):
        raise ContextError(
            f"The context 'mailDomain' must be a domain in lower case, such as in.example.com, not {value!r}"
        )
    return str(value)


def _timeout(stage: str, value: Any) -> int | None:
    if value is None:
        return None
    if stage != "local":
        raise ContextError("The context 'timeout' is for the local stage: on AWS, change the worker table")
    if not str(value).isdecimal() or int(value) < 1:
        raise ContextError(f"The context 'timeout' must be a positive whole number of seconds, not {value!r}")
    return int(value)


def _settings(stage: str, settings: Mapping[str, Any]) -> dict[str, str]:
    for name, value in settings.items():
        if name in STACK_SETTINGS:
            raise ContextError(f"The stack sets {name} for each function: remove it from 'settings'")
        if name in SECRETS and stage != "local":
            raise ContextError(f"{name} is a secret: store it in Secrets Manager, not in the context 'settings'")
        if name not in TUNABLE | SECRETS:
            raise ContextError(f"Unknown setting {name!r}. Known settings: {', '.join(sorted(TUNABLE))}")
        if not isinstance(value, str):
            raise ContextError(f'The setting {name} must be a string, because it is an environment variable: use "..."')
    for name, providers in (("LLM_PROVIDER", PROVIDERS), ("EMBEDDING_PROVIDER", EMBEDDING_PROVIDERS)):
        if settings.get(name, providers[0]) not in providers:
            raise ContextError(f"{name} must be one of {', '.join(providers)}, not {settings[name]!r}")
    if settings.get("OCR_PROVIDER", RECOGNITIONS[0]) not in RECOGNITIONS:
        raise ContextError(
            f"OCR_PROVIDER must be {' or '.join(RECOGNITIONS)} or omitted, not {settings['OCR_PROVIDER']!r}"
        )
    return dict(sorted(settings.items()))


def _thresholds(thresholds: Mapping[str, Any]) -> dict[str, float]:
    for name, value in thresholds.items():
        if name not in THRESHOLDS:
            raise ContextError(f"Unknown alarm {name!r}. Alarms with a threshold: {', '.join(sorted(THRESHOLDS))}")
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise ContextError(f"The threshold of {name!r} must be a number of at least 0, not {value!r}")
    return dict(thresholds)


def _retention(retention: Mapping[str, Any]) -> dict[str, int]:
    prefixes = (*SOURCE_PREFIXES, NONCURRENT)
    for name, days in retention.items():
        if name not in prefixes:
            raise ContextError(f"{name!r} has no configurable retention: use one of {', '.join(prefixes)}")
        if isinstance(days, bool) or not isinstance(days, int) or days < 1:
            raise ContextError(f"The retention of {name!r} must be a positive whole number of days, not {days!r}")
    return dict(retention)
