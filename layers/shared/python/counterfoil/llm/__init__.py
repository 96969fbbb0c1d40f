"""Questions to a language model: asked with patience, answered in a form that was asked for, and counted."""

from counterfoil.llm.asking import Asks, Llm, Question
from counterfoil.llm.provider import RefusedQuestionError

__all__ = ["Asks", "Llm", "Question", "RefusedQuestionError"]
