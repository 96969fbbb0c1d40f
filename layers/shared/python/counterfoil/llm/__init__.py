"""Calls to language and embedding models, with retries, schemas and budgets."""

from counterfoil.llm.answers import ChatTurn, PromptRejectedError
from counterfoil.llm.client import (
    CHAT,
    BudgetExceededError,
    Llm,
    LlmClient,
    LlmRequest,
    LlmResponse,
    Vector,
    check_chat_budget,
)

__all__ = [
    "CHAT",
    "BudgetExceededError",
    "ChatTurn",
    "Llm",
    "LlmClient",
    "LlmRequest",
    "LlmResponse",
    "PromptRejectedError",
    "Vector",
    "check_chat_budget",
]
