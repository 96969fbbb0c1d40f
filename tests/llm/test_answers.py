"""A model's answer is parsed and validated against the requested schema."""

from typing import Literal

import pytest
from pydantic import BaseModel

from counterfoil.errors import InvalidLlmResponseError, safe_message
from counterfoil.llm.answers import PREVIEW_CHARS, read


class Form(BaseModel):
    count: int
    word: Literal["yes", "no"] = "no"


class TextForm(BaseModel):
    said: str


@pytest.mark.parametrize(
    "text",
    [
        '{"count": 3}',
        '\n {"count": 3}\n',
        '```json\n{"count": 3}\n```',
        '```\n{"count": 3}\n```',
        '```JSON\n{"count": 3}```',
        'Here you are:\n```json\n{"count": 3}\n```\nAnything else?',
        '```json\n{"count": 3, "note": "a ``` inside"}\n```',
        '{"count": 3, "note": "```json\\n{}\\n```"}',
    ],
)
def test_answer_with_or_without_code_fence_is_parsed(text: str):
    assert read(text, Form) == Form(count=3)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (r"a\u0000b", "a\ufffdb"),
        ("a\x00b", "a\ufffdb"),
        (r"a\ud800b", "a\ufffdb"),
        (r"a\uDC00\uD83D", "a\ufffd\ufffd"),
        ("a\ud800b", "a?b"),
        (r"\uD83D\uDE00", "\U0001f600"),
        (r"C:\\u0000", r"C:\u0000"),
        (r"\\\u0000", "\\\ufffd"),
        (r"\"\n\u00fc", '"\n\u00fc'),
    ],
)
def test_only_characters_unsupported_by_postgresql_are_replaced(raw: str, expected: str):
    assert read(f'{{"said": "{raw}"}}', TextForm) == TextForm(said=expected)


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_empty_answer_is_invalid(text: str):
    with pytest.raises(InvalidLlmResponseError, match=r"^The answer is empty$"):
        read(text, Form)


@pytest.mark.parametrize("text", ["Three.", '{"count": 3', '{"count": 3} and more', "```json\n```", "{'count': 3}"])
def test_non_json_answer_is_invalid(text: str):
    with pytest.raises(InvalidLlmResponseError, match="not valid JSON: '"):
        read(text, Form)


@pytest.mark.parametrize("text", ['{"count": "many"}', "{}", "[]", "null", '{"count": 3, "word": "maybe"}'])
def test_answer_with_wrong_schema_is_invalid(text: str):
    with pytest.raises(InvalidLlmResponseError, match=r"schema validation .*: '"):
        read(text, Form)


def test_error_quotes_first_200_characters_of_the_answer():
    text = "".join(chr(ord("a") + n % 26) for n in range(500))
    with pytest.raises(InvalidLlmResponseError) as error:
        read(text, Form)
    assert str(error.value) == f"The answer is not valid JSON: '{text[:PREVIEW_CHARS]}'"
    assert PREVIEW_CHARS == 200


def test_quoted_preview_is_printable_and_unambiguous():
    with pytest.raises(InvalidLlmResponseError) as error:
        read("line\nline\x00\x1b[31m\u202e\u2028'quoted'\ud800", Form)
    message = str(error.value)
    assert message.isprintable()
    assert message.count("'") == 2  # quotes occur only as delimiters, because errors are grouped without quoted text
    safe_message(error.value).encode()


def test_logged_error_omits_the_answer():
    for text in ("Total 1190.00", '{"count": "Total 1190.00"}'):
        with pytest.raises(InvalidLlmResponseError) as error:
            read(text, Form)
        assert "1190" in safe_message(error.value)
        assert "1190" not in safe_message(error.value, for_log=True)
        assert error.value.__cause__ is None
        assert error.value.__context__ is None
