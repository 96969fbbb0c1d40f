"""A language model whose answers about a document are kept: the same question again is answered by what it said.

The key of an answer has the provider, the model, the version of the prompt and the input. A different model or a new
version of the prompt needs a new answer.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from pydantic import BaseModel

from counterfoil.deadline import Deadline
from counterfoil.documents.reading.memory import Memory
from counterfoil.errors import InvalidAnswerError
from counterfoil.llm import Answered, BudgetSpentError, Llm, Question
from counterfoil.validation import validate

M = TypeVar("M", bound=BaseModel)


class Remembering:
    """Asks a model about one document, and keeps what it says."""

    def __init__(self, make: Callable[[], Llm], memory: Memory) -> None:
        """`make` makes the model as it is configured now."""
        self._make = make
        self._memory = memory
        self.unasked: str | None = None
        """Why the model was not asked, in a sentence for people: a day's budget of questions is used up."""

    def ask(self, question: Question, answer: type[M], deadline: Deadline) -> Answered[M]:
        """Return a cached answer or ask the model as `Llm.ask` does, outside any transaction."""
        llm = self._make()
        asked = (llm.provider.name, llm.provider.model, question.prompt_version, question.user)
        key = sha256("\n".join(asked).encode()).digest()
        kept = self._memory.find([key])
        if key in kept:
            try:
                return Answered(validate(answer, kept[key], lambda _: InvalidAnswerError("Cached in an earlier form")))
            except InvalidAnswerError:
                pass  # forms change with the code
        try:
            found = llm.ask(question, answer, deadline)
        except BudgetSpentError as error:
            self.unasked = str(error)
            raise
        self._memory.keep(key, found.said.model_dump(mode="json", exclude_none=True), llm.provider.model)
        return found
