"""Questions to a language model, or to one of embeddings: asked with patience, answered in a form, and counted."""

from counterfoil.llm.asking import Answered, Asks, Consults, Llm, Question
from counterfoil.llm.calls import CHAT, BudgetSpentError, refuse_spent_chats
from counterfoil.llm.embedding import Vector
from counterfoil.llm.provider import RefusedQuestionError, Turn

__all__ = [
    "CHAT",
    "Answered",
    "Asks",
    "BudgetSpentError",
    "Consults",
    "Llm",
    "Question",
    "RefusedQuestionError",
    "Turn",
    "Vector",
    "refuse_spent_chats",
]
