"""An estimate of tokens is never far below what a tokenizer counts."""

import pytest

from counterfoil.tasks.chat import OVERHEAD, estimate_tokens

# The largest count of OpenAI's cl100k_base and o200k_base and of Anthropic's public tokenizer.
COUNTED = [
    ("Please pay within fourteen days to the account below.", 10),
    ("Bitte überweisen Sie den Betrag innerhalb von vierzehn Tagen.", 19),
    ("请在十四天内将款项汇至以下账户。", 17),
    ("Просим оплатить сумму в течение четырнадцати дней.", 28),
    ("4137.15 9.99 12 80.5 77710.02", 19),
    ("🙂🎉🚀", 8),
]


@pytest.mark.parametrize(("text", "tokens"), COUNTED)
def test_the_estimate_is_above_what_tokenizers_count_and_not_by_far(text: str, tokens: int) -> None:
    assert tokens <= estimate_tokens(text) - OVERHEAD <= 3 * tokens


def test_every_message_takes_something() -> None:
    assert estimate_tokens("") == OVERHEAD
    assert estimate_tokens("a") == OVERHEAD + 1
    assert estimate_tokens("aaaaa") == OVERHEAD + 2
    assert estimate_tokens("\ud800") > OVERHEAD  # half a surrogate pair
