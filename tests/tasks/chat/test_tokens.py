"""Token estimates compared with real tokenizers' counts."""

import pytest

from counterfoil.tasks.chat import MESSAGE_OVERHEAD_TOKENS, estimate_tokens

# Each text has the largest of the token counts from three tokenizers: cl100k_base and o200k_base from OpenAI, and the
# public tokenizer from Anthropic.
COUNTED = [
    ("Please pay within fourteen days to the account below.", 10),
    ("Bitte überweisen Sie den Betrag innerhalb von vierzehn Tagen.", 19),
    ("请在十四天内将款项汇至以下账户。", 17),
    ("Просим оплатить сумму в течение четырнадцати дней.", 28),
    ("4137.15 9.99 12 80.5 77710.02", 19),
    ("🙂🎉🚀", 8),
]


@pytest.mark.parametrize(("text", "tokens"), COUNTED)
def test_estimate_is_between_count_and_triple_count(text: str, tokens: int) -> None:
    assert tokens <= estimate_tokens(text) - MESSAGE_OVERHEAD_TOKENS <= 3 * tokens


def test_every_message_adds_overhead_tokens() -> None:
    assert estimate_tokens("") == MESSAGE_OVERHEAD_TOKENS
    assert estimate_tokens("a") == MESSAGE_OVERHEAD_TOKENS + 1
    assert estimate_tokens("aaaaa") == MESSAGE_OVERHEAD_TOKENS + 2
    assert estimate_tokens("\ud800") > MESSAGE_OVERHEAD_TOKENS  # a lone surrogate
