"""What of a dead letter is hidden from people who may look at it but not at secrets. Pure.

Hidden are, by rule:

- what stands under a name that tells of a secret (password, token, API key, cookie, ...), all of it
- in texts: bearer tokens, basic credentials, JSON web tokens, keys of AWS, GitHub, Slack, Stripe and others who mark
  theirs, private keys, passwords in addresses, and `name=value`, `name: value` and `<name>value</name>` where the name
  tells of a secret. A value between quotes is hidden to its quote; one without, to the next blank, or farther where the
  text says that it goes on: a header, and a line of a settings file, to the end of the line; a setting among others, to
  the `;` or `&` behind it
- account numbers (IBAN, ISO 13616, by their check digits), but for their last four characters
- bodies: of e-mails, of messages as they came, of requests; in the text of an e-mail what follows its header

The shape stays: the same objects with the same names, the same lists. What is hidden is a text in its place.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from stdnum import iban

HIDDEN = "[hidden]"

_Rule = Callable[[Any], Any]
"""What is shown of a leaf."""


class Redacted(NamedTuple):
    """What may be shown."""

    value: Any
    """JSON, in the shape that it had."""
    pointers: list[str]
    """Where something was hidden (JSON pointers, RFC 6901)."""


def redact(value: Any) -> Redacted:
    """Hide what is to be hidden in a JSON value. To do it twice changes nothing more."""
    pointers: list[str] = []
    return Redacted(_shown(value, "", _open, pointers), pointers)


def _shown(value: Any, pointer: str, rule: _Rule, pointers: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _shown(one, f"{pointer}/{_escaped(name)}", _rule_of(name, value, rule), pointers)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_shown(one, f"{pointer}/{number}", rule, pointers) for number, one in enumerate(value)]
    shown = rule(value)
    if shown != value:
        pointers.append(pointer)
    return shown


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# -- by names -------------------------------------------------------------------------------------------------------

_SECRET_NAMES = (
    *(
        "secret",
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "token",
        "authorization",
        "cookie",
        "credential",
        "signature",
    ),
    *("apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "sessionid", "sessid"),
)
_SECRET_WORDS = {"pass", "pin", "sig"}
"""Which end a name, and are parts of many words that tell of none: passed, spin, signal."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_CONVERSATION = "session_id"
"""As our own chat has it: what is a UUID under it is an id, and no secret."""
_UUID = re.compile(r"\W*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\W*")
_MAIL_SUBJECT = "subject"
_MAIL_PEOPLE = {"from", "to", "sender", "recipient", "recipients"}
_MAIL_TEXTS = {"text", "html", "plain", "content", "parts", "message"}


def _rule_of(name: str, among: Mapping[str, Any], rule: _Rule) -> _Rule:
    """How what stands under a name is shown: below a secret everything is one."""
    if rule is not _open:
        return rule
    plain, secret = _kept(name) if len(name) <= _LONGEST_KEPT else _known(name)
    if secret is not None:
        return secret
    if plain.startswith("body") or plain.endswith("body"):
        return _unless_counted
    if plain.endswith("iban"):
        return _account
    if plain in _MAIL_TEXTS:
        others = set(map(_plain, among))
        if _MAIL_SUBJECT in others and others & _MAIL_PEOPLE:
            return _secret
    return _open


def _known(name: str) -> tuple[str, _Rule | None]:
    """A name without what does not matter in it, and how a secret under it is shown, if it tells of one."""
    plain = _plain(name)
    if name == _CONVERSATION:
        return plain, _unless_uuid
    if any(secret in plain for secret in _SECRET_NAMES):
        return plain, _unless_counted if plain.endswith("tokens") else _secret
    ends_with = {word.casefold() for word in _WORDS.findall(name)[-1:]}
    return plain, _secret if ends_with & _SECRET_WORDS else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


_LONGEST_KEPT = 64
_kept = lru_cache(maxsize=2048)(_known)
"""The same names stand in a million letters. Long ones, which are few, would take memory."""


def _secret(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) or value == "" else HIDDEN


def _unless_counted(value: Any) -> Any:
    """As a secret, but for numbers: how many tokens, or bytes of a body, there are."""
    return value if isinstance(value, int | float) else _secret(value)


def _unless_uuid(value: Any) -> Any:
    return value if isinstance(value, str) and _UUID.fullmatch(value) else _secret(value)


_HIDDEN_ACCOUNT = re.compile(rf"{re.escape(HIDDEN)}(?: [A-Za-z0-9]{{4}})?")
_LAST = 4
_SHORTEST_ACCOUNT = 12


def _account(value: Any) -> Any:
    if not isinstance(value, str) or _HIDDEN_ACCOUNT.fullmatch(value):
        return value if isinstance(value, str) else _secret(value)
    letters = re.sub(r"[^A-Za-z0-9]", "", value)
    return f"{HIDDEN} {letters[-_LAST:]}" if len(letters) >= _SHORTEST_ACCOUNT else _secret(value)


# -- in texts -------------------------------------------------------------------------------------------------------

_NAMES = (
    "secret|passw(?:or)?d|pwd|passphrase|token|credential|signature|(?:api|access|private|signing|encryption)[ _-]?key"
    "|sess(?:ion)?[ _-]?id(?![a-z])"
)
_SIGN = r"""["'\\]*\s*[:=]\s*"""
_STRING = (
    r"""\\"(?:[^"\\]|\\[^"])*(?:\\?"|\\?\Z)|\\'(?:[^'\\]|\\[^'])*(?:\\?'|\\?\Z)|"""
    r""""(?:[^"\\]|\\[\s\S]|"")*(?:"|\\?\Z)|'(?:[^'\\]|\\[\s\S]|'')*(?:'|\\?\Z)"""
)
"""Between quotes, which may be escaped, or escaped or doubled within, or may end with the text where that was cut."""
_VALUE = rf"""{_STRING}|{re.escape(HIDDEN)}(?=[\s,;&"'<]|\Z)|[^\s&"';]+|;"""
"""Between quotes; else up to a blank or a semicolon, which may end it (`_end_of_value`). What is hidden stays as it is.
"""

_MAIL = re.compile(r"\A((?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)+\r?\n)(.+)", re.DOTALL)
_MAIL_HEADER = re.compile(r"^(?:From|Subject|Received|MIME-Version):", re.IGNORECASE | re.MULTILINE)
_ERROR = r"(?<!error)(?<!exception)(?<!warning)"
"""Who ends so is a class: what comes behind its colon is a sentence."""
_ASSIGNED = re.compile(rf"((?:{_NAMES})[\w.-]{{0,40}}{_ERROR}{_SIGN})({_VALUE})", re.IGNORECASE)
_ELEMENT = re.compile(rf"(<[\w.:-]{{0,40}}?(?:{_NAMES})[\w.-]{{0,40}}(?:\s[^<>]{{0,200}})?>)([^<]+)", re.IGNORECASE)
_BRACED = re.compile(rf"((?:{_NAMES})\s*=\s*)\{{(?:[^}}]|\}}\}})*(?:\}}|\Z)", re.IGNORECASE)
"""As ODBC has it: between braces stands anything, a brace of its own twice."""
_ASSIGNED_SHORT = re.compile(
    rf"""((?<![A-Z0-9])(?:{"|".join(sorted(_SECRET_WORDS))})(?:["'\\]*\s*=|["'\\]+\s*:)\s*)({_VALUE})""", re.IGNORECASE
)
"""Before a colon in prose, the same words mean other things: "second pass: 3 pages"."""
_QUOTED = re.compile(r"""(\\?["']).*?(\\?["']|)""", re.DOTALL)
_COUNT = re.compile(r"tokens\W*\Z", re.IGNORECASE)
_MARKED = "|".join(
    (
        *(r"gh[a-z]_[A-Za-z0-9]{20,}", r"github_pat_\w{20,}", r"glpat-[\w-]{20,}", r"npm_[A-Za-z0-9]{30,}"),
        *(r"[sr]k_(?:live|test)_\w{10,}", r"whsec_[A-Za-z0-9+/=]{10,}", r"AIza[\w-]{30,}"),
        *(
            r"xox[a-z]-(?=[A-Za-z-]{0,20}[0-9])[A-Za-z0-9-]{10,}",
            r"xapp-[0-9]-[A-Za-z0-9-]{10,}",
            r"SG\.[\w-]{16,}\.[\w-]{16,}",
        ),
    )
)
"""Secrets that begin with a mark of whose they are."""
_AWS_SECRET = re.compile(
    r"(?<![A-Za-z0-9/+=])(?=[/+A-Z0-9]*[a-z])(?=[/+a-z0-9]*[A-Z])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
)


_PARAMETER = rf"[\w-]{{1,40}}\s*=\s*(?:{_STRING}|[^\s,\"']+)"
_AUTHORIZATION = re.compile(
    rf"(authorization{_SIGN})((?:{_STRING})|[\w-]+[ \t]+{_PARAMETER}(?:\s*,\s*{_PARAMETER})*"
    rf"|(?:[\w-]+[ \t]+)?(?:{_VALUE}))",
    re.IGNORECASE,
)
"""Credentials (RFC 9110, 11.4): a scheme with a token, or with parameters between commas."""
_HEADER_VALUE = re.compile(rf"(?<=header value:[ ])b?(?:{_STRING})|(?<=header value[ ])b?(?:{_STRING})", re.IGNORECASE)
"""Of a header that a client of ours refuses to send, as h11, http.client and requests tell of it."""


def _basic(match: re.Match[str]) -> str:
    """What stands behind the word `basic` is a credential where it is the Base64 of a name, a colon and a password."""
    try:
        said = b64decode(match[2] + "=" * (-len(match[2]) % 4), validate=True).decode()
    except ValueError:
        return match[0]
    return f"{match[1]}{HIDDEN}" if ":" in said else match[0]


_PATTERNS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        HIDDEN,
    ),
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]*)*"), HIDDEN),
    (re.compile(r"(?i)\b(bearer[ \t]+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(basic[ \t]+)([A-Za-z0-9+/]{4,}={0,2})"), _basic),
    (re.compile(rf"(?<![A-Za-z0-9_])(?:{_MARKED})"), HIDDEN),
    (re.compile(r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[A-Za-z0-9/_-]+"), rf"\1{HIDDEN}"),
    (_BRACED, rf"\1{HIDDEN}"),
    (re.compile(r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"(?i)(?<![A-Z0-9])(pin:[ \t]*)[0-9]{4,12}\b"), rf"\1{HIDDEN}"),
    (_HEADER_VALUE, HIDDEN),
    (re.compile(rf"(?i)(cookie{_SIGN})[^\r\n]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(://[^\s/:@]{0,256}:)[^\s/@]{1,256}(?:@[^\s/@\"'<>,;]{1,256})*(?=@)"), rf"\1{HIDDEN}"),
    (re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"), HIDDEN),
    (_AWS_SECRET, HIDDEN),
)


def _open(value: Any) -> Any:
    """A text without what patterns know; whatever is no text, as it is."""
    if not isinstance(value, str):
        return value
    if (parsed := _parsed(value)) is not None:
        inside = redact(parsed)
        return json.dumps(inside.value, ensure_ascii=False) if inside.pointers else value
    mail = _MAIL.match(value)
    if mail and _MAIL_HEADER.search(mail[1]):
        value = mail[1] + HIDDEN
    for pattern, instead in _PATTERNS:
        value = pattern.sub(instead, value)
    for pattern in (_AUTHORIZATION, _ASSIGNED, _ASSIGNED_SHORT):
        value = _without_assigned(value, pattern)
    return _without_accounts(_ELEMENT.sub(_element, value))


def _parsed(text: str) -> Any:
    """What a text holds that is a JSON object or a list; None for any other."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_LONGEST = 512
"""So far is looked for what a value stands among."""
_START_OF_LINE = re.compile(r"\n|\\n")
_REST_OF_LINE = re.compile(r"(?:[^\r\n\\]|\\(?![rn]))*")
"""Where a text is told as Python tells it, the ends of its lines are letters behind a backslash."""
_REST_IN_QUOTES = re.compile(r"""(?:[^"'\\\r\n]|\\(?!["']))*""")
_REST_OF_WORD = re.compile(r"""[^\s&"']*""")
_REST_OF_SETTING = re.compile(r'[^;\r\n"]*')
_KEY = r"(?:[\w.-]{1,40}|(?:user|initial|data|integrated|application|connect(?:ion)?|persist) [a-z]{2,10})\s?="
_NEXT_SETTING = re.compile(rf'[^;&\r\n"]{{0,{_LONGEST}}}?(?=[;&]\s?{_KEY})', re.IGNORECASE)
_NAME_OF_SETTING = re.compile(r"\s?[\w .-]{0,40}")
_LINE_OF_HEADER = re.compile(r"(?:[ \t]*|[<>*][ \t]+)[\w-]{0,40}")
_QUOTED_HEADER = re.compile(r"""(?:-H|--header)[ =]?\\?["'][\w-]{0,40}\Z""")
_LINE_OF_SETTINGS = re.compile(r"(?:export[ \t]+)?[\w.-]{0,40}")
_ONE_MORE = re.compile(r"\s[\w.-]{1,40}[=:]")


def _without_assigned(text: str, pattern: re.Pattern[str]) -> str:
    """A text without the values that a pattern finds (its second group) behind their names (its first)."""
    parts: list[str] = []
    at = 0
    while (match := pattern.search(text, at)) is not None:
        parts += text[at : match.start()], _assigned(match)
        at = _end_of_value(text, match)
    return "".join([*parts, text[at:]])


def _assigned(match: re.Match[str]) -> str:
    name, value = match[1], match[2]
    if _is_shown(match):
        return match[0]
    quotes = _QUOTED.fullmatch(value)
    return f"{name}{quotes[1]}{HIDDEN}{quotes[2]}" if quotes else f"{name}{HIDDEN}"


def _is_shown(match: re.Match[str]) -> bool:
    """Whether the value is a number of tokens, or the id of a conversation of ours."""
    name, value = match[1], match[2]
    if _COUNT.search(name) and value.strip(".,;)]}").isdecimal():
        return True
    return name.startswith(_CONVERSATION) and _UUID.fullmatch(value) is not None


def _end_of_value(text: str, match: re.Match[str]) -> int:
    """Where a value ends that may have blanks: by what stands around it, or where the pattern ends."""
    name = match[1].rstrip()
    if _is_shown(match) or _QUOTED.fullmatch(match[2]):
        return match.end()
    before = _START_OF_LINE.split(text[max(0, match.start() - _LONGEST) : match.start()])[-1]
    if name.endswith("="):
        return _end_of_setting(text, match, before)
    if name.endswith(":") and _QUOTED_HEADER.search(before):
        return _rest(_REST_IN_QUOTES, text, match.end())
    if name.endswith(":") and _is_header(before, name):
        return _rest(_REST_OF_LINE, text, match.end())
    return _rest_of_word(text, match.end())


def _is_header(before: str, name: str) -> bool:
    """Whether a line is a header, by how it begins: with a mark of curl's, or with a name that only headers have."""
    if " " in name or not _LINE_OF_HEADER.fullmatch(before):
        return False
    return before[:1] in {"<", ">"} or "-" in before + name or name.casefold().startswith("authorization")


def _end_of_setting(text: str, match: re.Match[str], before: str) -> int:
    """Of `name=value`: among others the `;` or `&` between them, and alone on its line the end of that."""
    earlier, semicolon, own = before.rpartition(";")
    if semicolon and "=" in earlier.rpartition(";")[2] and _NAME_OF_SETTING.fullmatch(own):
        return _rest(_REST_OF_SETTING, text, match.start(2))
    if (found := _NEXT_SETTING.match(text, match.start(2))) is not None:
        return found.end()
    if _LINE_OF_SETTINGS.fullmatch(before):
        rest = _rest(_REST_OF_LINE, text, match.end())
        if not _ONE_MORE.search(text, match.end(), rest):
            return rest
    return _rest_of_word(text, match.end())


def _rest_of_word(text: str, at: int) -> int:
    """Where no semicolon ends a value, it is a part of it."""
    return _rest(_REST_OF_WORD, text, at) if ";" in text[at - 1 : at + 1] else at


def _rest(of: re.Pattern[str], text: str, at: int) -> int:
    found = of.match(text, at)
    return at if found is None else found.end()


def _element(match: re.Match[str]) -> str:
    return match[0] if _is_shown(match) or not match[2].strip() else f"{match[1]}{HIDDEN}"


MOST_LOOKED_AT = 1000
"""Parts of a text that look like an account number, and are tried: what comes behind so many is hidden."""
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ \u00a0-]?[A-Za-z0-9]){11,30}")
_END = re.compile(r"(?<=[A-Za-z0-9])(?![A-Za-z0-9])")


def _without_accounts(text: str) -> str:
    parts: list[str] = []
    at = 0
    for _ in range(MOST_LOOKED_AT):
        match = _ACCOUNT.search(text, at)
        if match is None:
            return "".join([*parts, text[at:]])
        ends = [one.start() for one in _END.finditer(text, match.start(), min(match.end() + 1, len(text)))]
        numbers = [re.sub(r"[^A-Za-z0-9]", "", text[match.start() : end]) for end in ends]
        found = next(
            ((e, n) for e, n in zip(ends, numbers, strict=True) if iban.is_valid(n, check_country=False)), None
        )
        if found is None:
            parts.append(text[at : match.start() + 1])
            at = match.start() + 1
        else:
            end, number = found
            parts.append(f"{text[at : match.start()]}{HIDDEN} {number[-_LAST:]}")
            at = end
    rest = _ACCOUNT.search(text, at)
    return "".join([*parts, text[at:] if rest is None else text[at : rest.start()] + HIDDEN])
