"""Calls to language and embedding models, with retries, response schemas and budgets."""

from counterfoil.llm.answers import RefusedQuestionError, Turn
from counterfoil.llm.client import (
    CHAT,
    Answered,
    Asks,
    BudgetSpentError,
    Llm,
    Question,
    Vector,
    refuse_spent_chats,
)

__all__ = [
    "CHAT",
    "Answered",
    "Asks",
    "BudgetSpentError",
    "Llm",
    "Question",
    "RefusedQuestionError",
    "Turn",
    "Vector",
    "refuse_spent_chats",
]
