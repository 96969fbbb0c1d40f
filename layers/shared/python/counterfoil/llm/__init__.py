"""Questions to a language model: asked with patience, answered in a form that was asked for, and counted."""

from counterfoil.llm.asking import Answered, Asks, Consults, Llm, Question
from counterfoil.llm.calls import BudgetSpentError
from counterfoil.llm.provider import RefusedQuestionError

__all__ = ["Answered", "Asks", "BudgetSpentError", "Consults", "Llm", "Question", "RefusedQuestionError"]
