"""How many tokens of a language model a text takes, without that model's tokenizer. Pure."""

OVERHEAD = 4
"""Tokens around each message of a conversation, which tell who speaks."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyz "


def estimate(text: str) -> int:
    """An upper estimate: 2 tokens for 5 small letters and blanks of ASCII, 4 for 5 other bytes of UTF-8; and OVERHEAD.

    Held against three tokenizers that are public (OpenAI's cl100k and o200k, Anthropic's of 2023), it was 1.0 to 2.6
    times the largest of their counts for prose in twelve languages, code, JSON, tables of numbers, UUIDs and emoji;
    for what is random in base64 or among rare ideographs, 0.8 to 0.9. So a window of N such tokens holds about N/2
    tokens of a model or more, and a model that reads a quarter more than N reads all of it.
    """
    content = text.encode(errors="replace")
    others = len(content.translate(None, _LETTERS))
    return OVERHEAD - (-(2 * (len(content) - others) + 4 * others) // 5)
