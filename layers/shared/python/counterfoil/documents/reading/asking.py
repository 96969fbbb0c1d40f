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
from counterfoil.llm import BudgetSpentError, Llm, Question
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

    def ask(
        self,
        question: Question,
        answer: type[M],
        deadline: Deadline,
    ) -> M:
        """The answer, as `Llm.ask`; outside any transaction. One that is kept and still in its form costs nothing."""
        llm = self._make()
        asked = (llm.provider.name, llm.provider.model, question.prompt_version, question.user)
        key = sha256("\n".join(asked).encode()).digest()
        kept = self._memory.find([key])
        if key in kept:
            try:
                return validate(
                    answer, kept[key], lambda _: InvalidAnswerError("An answer of an earlier form was kept")
                )
            except InvalidAnswerError:
                pass  # forms change with the code: asked anew
        try:
            said = llm.ask(question, answer, deadline)
        except BudgetSpentError as error:
            self.unasked = str(error)
            raise
        self._memory.keep(key, said.model_dump(mode="json", exclude_none=True), llm.provider.model)
        return said
