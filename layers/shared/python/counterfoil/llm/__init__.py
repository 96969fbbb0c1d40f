"""Questions to a language model: asked with patience, answered in a form that was asked for, and counted."""

from counterfoil.llm.asking import Llm, Question
from counterfoil.llm.provider import RefusedQuestionError

__all__ = ["Llm", "Question", "RefusedQuestionError"]
