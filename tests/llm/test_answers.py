"""From a model's words to the form that was asked for."""

from typing import Literal

import pytest
from pydantic import BaseModel

from counterfoil.errors import InvalidAnswerError, sentence
from counterfoil.llm.answers import PREVIEW, read


class Form(BaseModel):
    count: int
    word: Literal["yes", "no"] = "no"


class Told(BaseModel):
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
def test_an_answer_is_read_also_out_of_a_fence(text: str):
    assert read(text, Form) == Form(count=3)


@pytest.mark.parametrize(
    ("written", "is_read_as"),
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
def test_what_postgresql_cannot_hold_is_replaced_and_nothing_else(written: str, is_read_as: str):
    assert read(f'{{"said": "{written}"}}', Told) == Told(said=is_read_as)


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_an_empty_answer_is_invalid(text: str):
    with pytest.raises(InvalidAnswerError, match=r"^The answer is empty$"):
        read(text, Form)


@pytest.mark.parametrize("text", ["Three.", '{"count": 3', '{"count": 3} and more', "```json\n```", "{'count': 3}"])
def test_what_is_not_json_is_invalid(text: str):
    with pytest.raises(InvalidAnswerError, match="not valid JSON: '"):
        read(text, Form)


@pytest.mark.parametrize("text", ['{"count": "many"}', "{}", "[]", "null", '{"count": 3, "word": "maybe"}'])
def test_what_has_another_form_is_invalid(text: str):
    with pytest.raises(InvalidAnswerError, match=r"schema validation .*: '"):
        read(text, Form)


def test_the_preview_is_the_first_200_characters_of_the_answer():
    text = "".join(chr(ord("a") + n % 26) for n in range(500))
    with pytest.raises(InvalidAnswerError) as caught:
        read(text, Form)
    assert str(caught.value) == f"The answer is not valid JSON: '{text[:PREVIEW]}'"
    assert PREVIEW == 200


def test_nothing_in_a_preview_can_pass_for_something_else():
    with pytest.raises(InvalidAnswerError) as caught:
        read("line\nline\x00\x1b[31m\u202e\u2028'quoted'\ud800", Form)
    said = str(caught.value)
    assert said.isprintable()
    assert said.count("'") == 2  # those around it, by which errors are grouped
    sentence(caught.value).encode()


def test_a_log_is_told_without_the_preview_and_no_error_behind_it_has_the_answer():
    for text in ("Total 1190.00", '{"count": "Total 1190.00"}'):
        with pytest.raises(InvalidAnswerError) as caught:
            read(text, Form)
        assert "1190" in sentence(caught.value)
        assert "1190" not in sentence(caught.value, for_log=True)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
