"""Questions to a language model, or to one of embeddings: asked with patience, answered in a form, and counted."""

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
