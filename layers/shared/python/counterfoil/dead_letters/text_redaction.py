"""Hides secrets in error messages, logs, command lines, headers and settings.

A quoted value is hidden up to its closing quote, and most unquoted values up to the next space. Some unquoted values
can contain spaces: the value of a header, or of a line in a settings file, ends with the line. A value in a list of
settings ends at the next `;` or `&`.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path

from stdnum import iban, luhn

REDACTED = "[hidden]"
SESSION_ID = "session_id"
"""Field name of a conversation's id. A UUID in this field is not a secret."""
VISIBLE_CHARS = 4
"""Number of last characters of an account number that stay visible."""

_UUID = re.compile(r"\W*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\W*")

# -- names of secrets -----------------------------------------------------------------------------------------------

_PASSWORDS = "|".join(
    (
        *("passw(?:or)?d", "passord", "passwort", "pwd", "passphrase", "pass[ _-]?code", "kennwort", "lösungswort"),
        *("mot[ _-]?de[ _-]?passe", r"(?<![a-z])mdp(?![a-z])", "contrase(?:ñ|n\u0303?)a", "contrasenya"),
        *(r"(?<![a-z_])(?<!palabra )clave(?! de (?!acceso))(?![a-z_])", "palavra[ _-]?passe", "parola[ _-]d.ordine"),
        *("wachtwoord", "l[oö]senord", "adgangskode", "kodeord", "salasana", "jelsz[oó]", "slapta[zž]od", "lozink"),
        *(r"(?<![a-z])(?:has[lł]o|heslo|senha|geslo|parool|[sş]ifre|kata sandi|m[aậ]t kh[aẩ]u)(?![a-z])", "парол"),
        *("κωδικ[οό]ς", "密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호", "كلمة المرور"),
        *("(?:zugangs|zutritts|freischalt|entsperr|alarm)[ _-]?(?:code|pin)", "(?:access|unlock|gate|alarm)[ _-]code"),
        *("code d.acc[eè]s", "codice d(?:.|i )accesso", "c[oó]digo de acceso", "toegangscode"),
    )
)
"""Words for passwords and access codes in suppliers' languages."""
_NAMES = (
    rf"secret(?!ar)|{_PASSWORDS}|token|credential|signature|sess(?:ion)?[ _-]?id(?![a-z])|zugangsdaten"
    r"|client[ _-]?assertion|saml[ _-]?response|code[ _-]?verifier|(?:recovery|backup)[ _-]?code"
    r"|(?:security|secret)[ _-]?answer|sicherheitsantwort|requirepass|masterauth"
    r"|(?:api|wlan|wifi|wi-fi|netzwerk|zugangs|lizenz|zugriffs)[ -]?schlüssel"
    r"|cl[ée][ ](?:d.)?(?:api|acc[èe]s|secr[èe]te)"
    r"|(?:clave|chave|chiave)[ ](?:d[ae] )?(?:api|se[cg]reta|priva[dt]a)"
    r"|mnemonic(?![a-z])|(?:seed|recovery)[ _-]?phrase"
    r"|(?:api|access|account|auth|private|signing|encryption|service|client|consumer|master|storage|subscription|deploy"
    r"|function|webhook|hmac|ssh|session|license)[ _.-]?key"
)
_HINTS = (
    *("secret", "pass", "pwd", "wort", "mdp", "contrase", "clave", "parol", "wachtwoord", "senord", "adgangskod"),
    *("kodeord", "salasana", "haslo", "hasło", "heslo", "senha", "geslo", "jelsz", "slapta", "lozink", "ifre", "sandi"),
    *("t kh", "парол", "κωδικ", "密", "口令", "パスワード", "暗証", "비밀", "암호", "كلمة", "code", "acc"),
    *("token", "credential", "signature", "sess", "key", "login"),
    *("zugangsdaten", "assertion", "saml", "verifier", "recovery", "backup", "authorization", "cookie"),
    *(
        "schlüssel",
        "answer",
        "antwort",
        "masterauth",
        "clé ",
        "cle ",
        "chave",
        "chiave",
        "echo",
        "net use",
        "acl setuser",
    ),
    *("mnemonic", "phrase"),
    *("ldap", "auth=(", "basicauth("),
    *("identified", "securestring", "curl", "--user", "--proxy-user", "basic"),
    *("mysql", "mariadb", "mongo", "cqlsh", "rabbitmq", "docker", "podman", "vsql", "sqlcmd", "osql", "bcp", "unzip"),
    *("mosquitto", "zip", "7z", "redis-cli", "plink", "pscp", "psftp", "rdp", "openssl", "smb", "lftp", "http -a"),
)
"""Lowercase parts of names and commands. `_PATTERNS_WITH_HINT` are skipped if a text contains none of them."""
_SECRET_WORDS = {"pass", "pin", "sig", "pw", "auth", "otp", "totp", "psk", "cvv", "cvc", "jwt", "bearer"}
"""Words that denote a secret at the end of a name. They must be whole words, because harmless words contain them:
passed, spin, signal, author."""
_NAME = re.compile(rf"{_NAMES}|authorization|cookie", re.IGNORECASE)
_LAST_WORD = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)(?=[^A-Za-z]*\Z)")
_MAX_NAME_CHARS = 64


@lru_cache(maxsize=2048)
def is_secret_name(name: str) -> bool:
    """Return True if a name denotes a secret, such as `X-Api-Key` or `smtpPass`."""
    if _NAME.search(name):
        return True
    last = _LAST_WORD.search(name)
    return last is not None and last[0].casefold() in _SECRET_WORDS


def is_secret_label(text: object) -> bool:
    """Return True if a text is only the name of a secret.

    It may be an option, such as `--password`, or the name of a header.
    """
    return (
        isinstance(text, str)
        and len(text) <= _MAX_NAME_CHARS
        and _LABEL.fullmatch(text) is not None
        and is_secret_name(text.rstrip(":"))
    )


_LABEL = re.compile(r"-{0,2}[^\W\d][\w .-]*:?")


def is_uuid(text: str) -> bool:
    """Return True for a UUID. Punctuation around it is ignored."""
    return _UUID.fullmatch(text) is not None


_DESCRIPTIONS = {
    *("count", "policy", "rules", "length", "strength", "limit", "attempts", "type", "status", "version", "algorithm"),
    *("age", "days", "hours", "minutes", "seconds", "at", "date", "expires", "expiry", "required", "enabled"),
}
"""Last words of names for facts about a secret, such as `token_count` or `passwordChangedAt`."""
_FACT = re.compile(
    r"[0-9]{1,6}|[A-Za-z_-]{1,20}|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]{5,15}(?:Z|[+-][0-9:]{2,5})?)?"
)


def is_fact(name: str, value: object) -> bool:
    """Return True if a value is only a fact about a secret, such as its expiry.

    The name must denote such a fact, and the value must be a number, word or time.
    """
    last = _LAST_WORD.search(name)
    if last is None or last[0].casefold() not in _DESCRIPTIONS:
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and _FACT.fullmatch(value) is not None)


_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[\w.+=~-]{6,}")
_NUMBERED = re.compile(r"[A-Z]{1,10}[-_.]?[0-9]{1,10}")
_FILE_NAME = re.compile(r".*\.[A-Za-z][A-Za-z0-9]{1,4}")


def looks_random(text: str) -> bool:
    """Return True if a text looks random, with letters and digits mixed.

    File names, UUIDs, numbers such as ERP-2291, and texts of fewer than six characters do not look random.
    """
    is_mixed = bool(_RANDOM.fullmatch(text)) and not _NUMBERED.fullmatch(text)
    return is_mixed and not _FILE_NAME.fullmatch(text) and not is_uuid(text)


# -- tokens that are recognized by their format ---------------------------------------------------------------------

_PREFIXES = Path(__file__).with_name("token_prefixes.json")
_ENDS_WITH_SIGN = re.compile(r".*[.~]")
_DISTINCT_PREFIX_CHARS = 5
"""Minimum length of a prefix that is unlikely to start a file name."""
_PLAIN_WORDS = r"(?![a-z_-]+(?![\w-]))(?![A-Z_-]+(?![\w-]))"


@cache
def _token_pattern() -> re.Pattern[str]:
    """Return a pattern for tokens that start with an issuer's prefix.

    `tools.token_prefixes` generates the list of prefixes.
    """
    prefixes: dict[str, int] = json.loads(_PREFIXES.read_text())["prefixes"]

    def suffix(prefix: str, length: int) -> str:
        if len(prefix) >= _DISTINCT_PREFIX_CHARS or _ENDS_WITH_SIGN.fullmatch(prefix):
            return rf"{_PLAIN_WORDS}[\w-]{{{length},}}(?:[.~+/=][\w-]+)*={{0,2}}"
        return rf"{_PLAIN_WORDS}[A-Za-z0-9]{{{length},}}[\w-]*={{0,2}}"

    # Grouped by first character, because `re` tries alternatives one by one. Longer prefixes come first.
    groups = [
        (first, [re.escape(prefix[1:]) + suffix(prefix, prefixes[prefix]) for prefix in group])
        for first, group in groupby(sorted(prefixes, reverse=True), key=lambda prefix: prefix[0])
    ]
    alternatives = "|".join(f"{re.escape(first)}(?:{'|'.join(suffixes)})" for first, suffixes in groups)
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{alternatives}|{_MORE_TOKENS})")


_MORE_TOKENS = "|".join(
    (
        *(r"gh[a-z]_[A-Za-z0-9]{20,}", r"hv[sbr]\.[\w-]{20,}", r"pypi-[\w-]{16,}", r"whsec_[A-Za-z0-9+/=]{10,}"),
        *(r"xox[a-z]-(?=[A-Za-z-]{0,20}[0-9])[A-Za-z0-9-]{10,}", r"SG\.[\w-]{16,}\.[\w-]{16,}", r"AIza[\w-]{30,}"),
        *("key-[0-9a-f]{32}(?![0-9a-f])", "SK[0-9a-f]{32}(?![0-9a-f])", r"1//0[\w-]{20,}"),
        *(
            "NRAK-[A-Z0-9]{20,}",
            r"AAAA[\w-]{7}:APA91b[\w-]{60,}",
            "LS0tLS1CRUdJTiB(?!DRVJU|QVUJM)[A-Za-z0-9+/]{8,}={0,2}",
        ),
        *(r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}", r"npm_[A-Za-z0-9]{30,}"),
    )
)
_OPENAI = re.compile(r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|PuTTY-User-Key-File-[0-9]:.*?(?:Private-MAC: [0-9a-f]+|\Z)",
    re.DOTALL,
)
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]*)*")
_AWS_ID = re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])")
_AWS_SECRET = re.compile(
    r"(?<![A-Za-z0-9/+=])(?=[/+A-Z0-9]*[a-z])(?=[/+a-z0-9]*[A-Z])(?=[/+A-Za-z]*[0-9])[A-Za-z0-9/+]{40}(?![\w/+=])"
)
_PATH = re.compile(r"(?:^|/)[a-z]{4,}(?:/|$)")


def _redact_aws_secret(match: re.Match[str]) -> str:
    """Hide an AWS secret key, but not an S3 key of the same length.

    An S3 key contains words.
    """
    return match[0] if _PATH.search(match[0]) else REDACTED


_TELEGRAM = re.compile(r"(?<![0-9])[0-9]{8,10}:[A-Za-z0-9_-]{30,}")
_WEBHOOK_URL = re.compile(
    r"(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/"
    r"|webhook\.office\.com/webhookb2/|hooks\.zapier\.com/hooks/catch/|api\.telegram\.org/bot)[\w/@-]+(?::[\w-]+)?"
)

_PASSWORD_HASH = re.compile(
    r"\$(?:[1256y]|2[abxy]|apr1|argon2id?|argon2d|scrypt)\$[\w./+=,$-]{16,}|\bSCRAM-SHA-(?:1|256|512)\$[\w./+=:$-]{10,}"
    r"|\bpbkdf2[\w-]{0,20}\$[\w./+=$-]{16,}"
)
"""Password hashes in the formats of crypt(3), PostgreSQL and Django."""
_LOGIN = re.compile(
    r"((?:\bjdbc:oracle:[a-z]{2,10}:|\bsqlplus\s(?:-\w+\s)*)[\w.$#]{1,64}/)[^\s\"']{1,128}?(?=@)", re.IGNORECASE
)
"""Oracle logins: user/password@database."""
_SIGN_IN_LINK = re.compile(
    r"(/(?:magic|log-?in|sign-?in|reset|recover|verify|verification|confirm|activate|invite|invitation)/(?:[a-z-]{1,20}/)?)"
    r"(?=[\w-]*[0-9])(?![0-9a-f]{8}-[0-9a-f]{4}-)[\w-]{20,}",
    re.IGNORECASE,
)
"""URLs that sign in anyone who opens them."""
_ONE_TIME_CODE = re.compile(
    r"((?:\b(?:einmal|bestätigungs|sicherheits|freigabe|one-time |verification |security |sign-in |login )-?"
    r"(?:code|passcode|kennwort)|\bcode de (?:vérification|sécurité|confirmation)|\bcódigo de \w{5,12}|\bm?TAN)"
    r"\s?(?:is|lautet|ist|est|es|:)*:?\s{1,3})[0-9](?:[ -]?[0-9]){3,9}\b",
    re.IGNORECASE,
)

_PIN = re.compile(
    r"(\b(?:pin|puk)(?:[ -]?(?:code|nummer|number))?\s(?:is|was|ist|war|lautet|est|es|è|é)\s?:?\s)[0-9]{4,12}\b",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"(\bAUTH(?:ENTICATE)? (?:PLAIN|LOGIN|XOAUTH2|OAUTHBEARER|CRAM-MD5|DIGEST-MD5|NTLM) (?=[A-Z0-9+/=]*[a-z])"
    r"|(?:^|[\n\"'>:] ?)(?:PASS|AUTH(?: [\w.@-]{1,64})?|[\w.]{1,10} LOGIN [\w.@\"-]{1,64}) (?=[^\s\"']*[0-9]))"
    r"(?!\[hidden\])\"?[^\s\"']{4,}\"?"
)
"""Login commands of SMTP, IMAP, POP3, FTP and Redis."""
_USER_AND_PASSWORD = re.compile(
    r"(\b(?:basic[ -]auth[a-z]{0,11}|credentials?|log(?:in|ged in)(?: (?:as|with))?|zugangsdaten)(?:\s|\s?[:=]\s?)"
    r"[\"'(]?[A-Za-z][^\s:/\"'()]{0,63}:)(?![/[])(?=[^\s\"']*[0-9])(?=[^\s\"']*[A-Za-z])[^\s\"'),;]{4,}",
    re.IGNORECASE,
)
_JWK = re.compile(r"(\\?[\"'](?:d|p|q|dp|dq|qi|k)\\?[\"']\s?:\s?\\?[\"'])[\w-]{16,}")
"""Private members of a JSON Web Key (RFC 7518, 6)."""
_KUBERNETES = re.compile(r"((?:^|\n)(?:data|stringData):[ \t]*\n[ \t]+)(?!\[hidden\])[^\n]*(?:\n[ \t]+[^\n]*)*")


def _redact_basic(match: re.Match[str]) -> str:
    """Hide Base64-encoded credentials after the word `basic`.

    Decoded, credentials are a name, a colon and a password.
    """
    try:
        decoded = b64decode(match[2] + "=" * (-len(match[2]) % 4), validate=True).decode()
    except ValueError:
        return match[0]
    return f"{match[1]}{REDACTED}" if ":" in decoded else match[0]


# -- values after names ---------------------------------------------------------------------------------------------

_SIGN = r"""["'\\]*\]?\s*(?:={1,3}>?|:=|[:\uff1a]|%3[AaDd])\s*"""
_STRING = (
    r"""\\"(?:[^"\\]|\\[^"])*(?:\\?"|\\?\Z)|\\'(?:[^'\\]|\\[^'])*(?:\\?'|\\?\Z)|"""
    r""""(?:[^"\\]|\\[\s\S]|"")*(?:"|\\?\Z)|'(?:[^'\\]|\\[\s\S]|'')*(?:'|\\?\Z)"""
)
"""A string in quotes. Quotes can be escaped, doubled inside the string, or missing at the end of a truncated text."""
_VALUE = rf"""{_STRING}|{re.escape(REDACTED)}(?=[\s,;&"'<]|\Z)|[^\s&"';]+|;"""
"""A quoted string, or the text up to a space or semicolon. `_end_of_value` decides whether the value ends there. Hidden
values match too."""
_QUOTED_NAME = rf"\\?[\"'][\w .-]{{0,40}}(?:{_NAMES}|authorization|cookie)[\w .-]{{0,40}}\\?[\"']"

_NOT_ERROR_NAME = r"(?<!error)(?<!exception)(?<!warning)"
"""Excludes names of error classes. The colon after such a name is followed by a sentence, not a value."""
_ASSIGNED = re.compile(rf"((?:{_NAMES})[\w.-]{{0,40}}{_NOT_ERROR_NAME}{_SIGN})({_VALUE})", re.IGNORECASE)
_ASSIGNED_SHORT = re.compile(
    rf"""((?<![A-Z0-9])(?:{"|".join(sorted(_SECRET_WORDS))})(?:["'\\]*\s*=>?|["'\\]+\s*:)\s*)({_VALUE})""",
    re.IGNORECASE,
)
"""Names from `_SECRET_WORDS` before `=`, `=>`, or a quote and a colon. Without a quote, a colon is not sufficient,
because these words have other meanings in prose: "second pass: 3 pages"."""
_PARAMETER = rf"[\w-]{{1,40}}\s*=\s*(?:{_STRING}|[^\s,\"']+)"
_AUTHORIZATION = re.compile(
    rf"(authorization{_SIGN})((?:{_STRING})|[\w-]+[ \t]+{_PARAMETER}(?:\s*,\s*{_PARAMETER})*"
    rf"|(?:[\w-]+[ \t]+)?(?:{_VALUE}))",
    re.IGNORECASE,
)
"""Credentials (RFC 9110, 11.4): a scheme with a token, or with parameters separated by commas."""
_PAIR = re.compile(rf"({_QUOTED_NAME}\s*,\s*b?)({_STRING})(?!\s*[:=])", re.IGNORECASE)
"""A name and its value in a pair: ('password', 'x') or ["X-Api-Key", "x"]."""
_NAMED = re.compile(
    rf"""((?:name|key|header|field|parameter|type)\\?["']?\s*[:=]\s*b?{_QUOTED_NAME}[^<>{{}}\n]{{0,80}}?"""
    rf"""(?<![a-z])values?\\?["']?\s*[:=]\s*b?)({_STRING})""",
    re.IGNORECASE,
)
"""A name and its value in two members: {'name': 'X-Api-Key', 'value': 'x'} or `key="ApiKey" value="x"`."""
_VALUE_FIRST = re.compile(
    rf"""(values?\\?["']?\s*[:=]\s*b?)("[^"\n]{{0,200}}"|'[^'\n]{{0,200}}')"""
    rf"""(?=\s*,?\s*\\?["']?(?:name|key|header)\\?["']?\s*[:=]\s*{_QUOTED_NAME})""",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"((?<![\w-])--?[\w-]{{0,30}}(?:{_NAMES}|pass)[\w-]{{0,20}}[ \t]+)({_STRING}|[^\s\"'-]\S*)", re.IGNORECASE
)
_FLAGS = {
    r"sshpass|mysql\w{0,12}|mariadb\w{0,12}|mongo\w{0,10}|cqlsh|rabbitmqadmin": "-p ?",
    "(?:docker|podman|az|helm registry) login": "-p ?",
    r"ldap[a-z]{3,9}|vsql": "-w ?",
    r"sqlcmd|osql|tsql|bcp|zip|unzip|mosquitto_[a-z]{2,3}": "-P ",
    "7z[ar]?|rar|unrar": "-p",
    "redis-cli": "-a ",
    "ACL SETUSER": ">",
    "curl": "(?:-b ?|--cookie[ =])",
    "plink|pscp|psftp": "-pw ",
    "[xw]l?freerdp|rdesktop": "(?:/p:|-p ?)",
    "openssl": r"-(?:pass(?:in|out)?|k)\s(?:pass:)?",
    "smb(?:client|map|cacls|get)": r"-U ?[\"']?[^\s%\"']{1,64}%",
    "lftp": r"-u ?[\"']?[^\s,\"']{1,64},",
    "https?": r"-a ?[\"']?[^\s:\"'/]{1,64}:",
}
"""Flags that precede a password, by command."""
_FLAG_PREFIX = "|".join(rf"(?:{command})[ ](?:[^\n]{{0,200}}?[ ])?{flag}" for command, flag in _FLAGS.items())
_SHORT_OPTION = re.compile(rf"((?<![\w/.])(?:{_FLAG_PREFIX}))({_STRING}|[^\s\"']+)")
_QUOTED_AFTER_NAME = re.compile(
    rf"((?:{_PASSWORDS}|identified by|securestring(?:\s+-string)?)\s+)({_STRING})", re.IGNORECASE
)
"""SQL (PASSWORD 'x', IDENTIFIED BY 'x') and PowerShell (ConvertTo-SecureString "x")."""
_STRINGS = (_PAIR, _NAMED, _VALUE_FIRST, _OPTION, _SHORT_OPTION, _QUOTED_AFTER_NAME)

_BRACED = re.compile(rf"((?:{_NAMES})\s*=\s*)\{{(?:[^}}]|\}}\}})*(?:\}}|\Z)", re.IGNORECASE)
"""ODBC values in braces, which can contain any character. A closing brace inside the value is doubled."""
_ELEMENT = re.compile(
    rf"(<[\w.:-]{{0,40}}?(?:{_NAMES})[\w.-]{{0,40}}(?:\s[^<>]{{0,200}})?>"
    rf"|<[\w.:-]{{1,40}}\s[^<>]{{0,100}}?\b(?:name|key|id)=\"[\w .-]{{0,40}}(?:{_NAMES})[\w .-]{{0,40}}\""
    r"[^<>]{0,100}>)([^<]+)",
    re.IGNORECASE,
)
_HEADER_VALUE = re.compile(rf"(?<=header value:[ ])b?(?:{_STRING})|(?<=header value[ ])b?(?:{_STRING})", re.IGNORECASE)
"""Values of invalid headers, quoted in errors from h11, http.client or requests."""
_QUOTED = re.compile(r"""(\\?["']).*?(\\?["']|)""", re.DOTALL)
_END_OF_NAME = re.compile(r"([\w.-]{1,60})\W*\Z")
_COUNT = re.compile(r"tokens\W*\Z", re.IGNORECASE)
_NAMED_IN_PROSE = re.compile(
    rf"((?:{_NAMES})s?\s[\"'`(]?)([\w.+=~/-]{{8,}})(?=[\"'`)]?(?:[\s.,;:!?]|\Z))", re.IGNORECASE
)
"""A name and its value in a sentence: "the API key x is invalid"."""


_IN_SENTENCE = re.compile(
    rf"((?:{_NAMES})\w{{0,3}}(?:\s[^\s.:;=,]{{1,30}}){{1,4}}?\s(?:is|was|ist|war|lautet|est|es|è|é)\s?:?\s[\"'`(]?)"
    r"([\w.+=~/-]{8,})(?=[\"'`)]?(?:[\s.,;:!?]|\Z))",
    re.IGNORECASE,
)
"""A name and its value in a sentence, with words in between: "the password for ada is x"."""


def _redact_random(match: re.Match[str]) -> str:
    return f"{match[1]}{REDACTED}" if looks_random(match[2].rstrip(".")) else match[0]


_IN_QUERY = re.compile(r"([?&#](?:auth|code|sig|pw|pass|key)=)([^\s&#\"'<>]+)", re.IGNORECASE)
_MIN_CODE_CHARS = 6
"""Minimum length of a login code. Shorter codes are country or currency codes."""


def _redact_query_value(match: re.Match[str]) -> str:
    """Hide a query parameter's value, unless it is a harmless `key` or `code`."""
    name, value = match[1][1:-1].casefold(), match[2]
    is_harmless = (name == "key" and not looks_random(value.rstrip(".,:;)"))) or (
        name == "code" and len(value) < _MIN_CODE_CHARS
    )
    return match[0] if is_harmless else f"{match[1]}{REDACTED}"


_CARD = re.compile(
    r"(?<![\w.,/-])(?:(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6011|65[0-9]{2}|35[2-8][0-9])"
    r"([ -]?)[0-9]{4}\1[0-9]{4}\1|3[47][0-9]{2}([ -]?)[0-9]{6}\2[0-9])[0-9]{4}(?![\w/-]|[.,][0-9])"
)
"""Payment card numbers (ISO/IEC 7812) with 15 or 16 digits."""


def _redact_card(match: re.Match[str]) -> str:
    """Hide all but the last digits of a card number, if its check digit is valid."""
    return f"{REDACTED} {match[0][-VISIBLE_CHARS:]}" if luhn.is_valid(re.sub(r"[ -]", "", match[0])) else match[0]


_Replacement = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_PATTERNS: tuple[_Replacement, ...] = (
    (_PRIVATE_KEY, REDACTED),
    (_JWT, REDACTED),
    (re.compile(r"(?i)\b(bearer[ \t]+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1{REDACTED}"),
    (re.compile(r"(?i)\b(basic[ \t]+)([A-Za-z0-9+/]{4,}={0,2})"), _redact_basic),
    (_WEBHOOK_URL, rf"\1{REDACTED}"),
    (_TELEGRAM, REDACTED),
    (_OPENAI, REDACTED),
    (re.compile(r"(?i)(?<![A-Z0-9])(pin:[ \t]*)[0-9]{4,12}\b"), rf"\1{REDACTED}"),
    (_HEADER_VALUE, REDACTED),
    (re.compile(rf"(?i)(cookie{_SIGN})[^\r\n]+"), rf"\1{REDACTED}"),
    # URLs with a password, which can contain `@` or a slash, or with a token in place of the user name.
    (re.compile(r"(://[^\s/:@]{0,256}:)[^\s/@]{1,256}(?:@[^\s/@\"'<>,;]{1,256})*(?=@)"), rf"\1{REDACTED}"),
    (
        re.compile(
            r"(://[^\s/:@]{1,256}:)(?![0-9]{1,5}[/?#])[^\s@\"'<>]{1,256}(?=@[\w.-]{1,256}(?::[0-9]{1,5})?(?![\w.:@]))"
        ),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(?i)(\bhttps?://)(?!\[hidden\])[^\s/:@\"'<>]{6,256}(?=@)"), rf"\1{REDACTED}"),
    (re.compile(r"(?i)(%3A%2F%2F[^\s%&]{0,256}%3A)[^\s&]{1,256}?(?=%40)"), rf"\1{REDACTED}"),
    (_IN_QUERY, _redact_query_value),
    (_AWS_ID, REDACTED),
    (_AWS_SECRET, _redact_aws_secret),
    (_CARD, _redact_card),
)
_PATTERNS_WITH_WORD: tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...] = (
    (re.compile(r"\$"), _PASSWORD_HASH, REDACTED),
    (re.compile("oracle:|sqlplus"), _LOGIN, rf"\1{REDACTED}"),
    (re.compile("://"), _SIGN_IN_LINK, rf"\1{REDACTED}"),
    (re.compile("code|kennwort|tan"), _ONE_TIME_CODE, rf"\1{REDACTED}"),
    (re.compile("p[iu][nk]"), _PIN, rf"\1{REDACTED}"),
    (re.compile("auth|pass|login"), _COMMAND, rf"\1{REDACTED}"),
    (re.compile("basic|credential|login|zugangsdaten"), _USER_AND_PASSWORD, rf"\1{REDACTED}"),
    (re.compile("kty"), _JWK, rf"\1{REDACTED}"),
    (re.compile(r"kind:\s*secret"), _KUBERNETES, rf"\1{REDACTED}"),
)
"""Patterns with their replacements. Each is applied only if the first pattern in its row matches the lowercase text."""
_PATTERNS_WITH_HINT: tuple[_Replacement, ...] = (
    (_BRACED, rf"\1{REDACTED}"),
    # Command lines: curl -u user:password.
    (
        re.compile(
            r"""((?:\bcurl\b[^\n]{0,300}?\s-u|(?<!\S)--(?:proxy-)?user)[ =]?(["'])[^\s:"']{1,100}:)[^"']+(?=\2)"""
        ),
        rf"\1{REDACTED}",
    ),
    (
        re.compile(r"""((?:\bcurl\b[^\n]{0,300}?\s-u|(?<!\S)--(?:proxy-)?user)[ =]?[^\s:"']{1,100}:)[^\s"']+"""),
        rf"\1{REDACTED}",
    ),
    # Python: auth=('user', 'password').
    (
        re.compile(rf"((?:\bauth=|BasicAuth)\((?:username=)?(?:{_STRING}),\s*(?:password=)?)(?:{_STRING})"),
        rf"\1'{REDACTED}'",
    ),
    # PostgreSQL: Key (api_token)=(x) already exists.
    (
        re.compile(
            rf"(\bKey \([^()]{{0,200}}(?:{_NAMES})[^()]{{0,200}}\)=\()"
            r"(?![0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\))(?:[^\n]{0,1000}?(?=\) (?:already|is|conf))|[^\n]*)",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    # Pydantic: the location of an error on one line, and the value on the next line.
    (
        re.compile(
            rf"((?:^|\n)[\w.]{{0,200}}(?:{_NAMES}|\bpw|\bauth)[\w.]{{0,100}}\n[ \t]+[^\n]{{0,500}}?input_value=)"
            r"[^\n]{0,1000}?(?=, input_type=)",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    # A part of a form (RFC 7578): headers, an empty line, and the value.
    (
        re.compile(
            rf"(name=\\?\"[\w.-]{{0,40}}(?:{_NAMES})[\w.-]{{0,40}}\\?\"[^\n]{{0,200}}\n(?:[^\r\n]{{1,200}}\r?\n){{0,3}}\r?\n)[^\r\n]+",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    # netrc.
    (re.compile(r"(?i)(\blogin\s+\S{1,200}\s+password\s+)\S+"), rf"\1{REDACTED}"),
    # XML and property lists: a name and its value in two elements.
    (
        re.compile(
            rf"(<(?:name|key)>[\w .-]{{0,40}}(?:{_NAMES})[\w .-]{{0,40}}</(?:name|key)>\s*<(?:value|string)>)[^<]+",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    (_NAMED_IN_PROSE, _redact_random),
    (_IN_SENTENCE, _redact_random),
    # HCL: variable "password" { default = "x" }.
    (
        re.compile(
            rf"(\bvariable\s\"[\w-]{{0,40}}(?:{_NAMES})[\w-]{{0,40}}\"\s?\{{[^{{}}]{{0,300}}?\bdefault\s{{0,9}}=\s?)(?:{_STRING})",
            re.IGNORECASE,
        ),
        rf'\1"{REDACTED}"',
    ),
    # Shell: echo x | docker login --password-stdin.
    (
        re.compile(
            rf"(\becho\s(?:-n\s)?)(?:{_STRING}|[^\s\"'|]+)"
            r"(?=\s?\|\s?[^\n|]{0,200}?(?:--pass|sudo -S|chpasswd|passwd -i))"
        ),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(?i)(\bnet use\s[^\n]{0,200}?\\\\\S{1,200}\s)[^\s/]\S*(?=\s{1,3}/user:)"), rf"\1{REDACTED}"),
    # A sentence: "the password is x". A word without a digit is not a value: "the password is wrong".
    (
        re.compile(
            rf"((?:{_NAMES})\w{{0,3}}\s+(?:is|was|ist|war|lautet|est|es|è|é)\s*:?\s+[\"']?)"
            r"(?=[^\s0-9]{0,64}[0-9])(?=[^\sA-Za-z]{0,64}[A-Za-z])[^\s\"']{4,}",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
)

_MAIL = re.compile(r"\A((?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)+\r?\n)(.+)", re.DOTALL)
_MAIL_HEADER = re.compile(r"^(?:From|Subject|Received|MIME-Version):", re.IGNORECASE | re.MULTILINE)


def without_secrets(text: str) -> str:
    """Return a text with its secrets hidden. Idempotent."""
    mail = _MAIL.match(text)
    if mail and _MAIL_HEADER.search(mail[1]):
        text = mail[1] + REDACTED
    text = _token_pattern().sub(REDACTED, text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    lowered = text.lower()
    for word, pattern, replacement in _PATTERNS_WITH_WORD:
        if word.search(lowered):
            text = pattern.sub(replacement, text)
    if any(hint in lowered for hint in _HINTS):
        for pattern, replacement in _PATTERNS_WITH_HINT:
            text = pattern.sub(replacement, text)
        for pattern in _STRINGS:
            text = pattern.sub(_redact_assigned, text)
        for pattern in (_AUTHORIZATION, _ASSIGNED):
            text = _redact_assignments(text, pattern)
        text = _ELEMENT.sub(_redact_element, text)
    return _redact_accounts(_redact_assignments(text, _ASSIGNED_SHORT))


_MAX_CONTEXT_CHARS = 512
"""Maximum number of characters that are checked before a value to find its context."""
_START_OF_LINE = re.compile(r"\n|\\n")
_REST_OF_LINE = re.compile(r"(?:[^\r\n\\]|\\(?![rn]))*")
"""The rest of a line. The escapes `\\r` and `\\n`, as in a `repr`, also end the line."""
_REST_IN_QUOTES = re.compile(r"""(?:[^"'\\\r\n]|\\(?!["']))*""")
_REST_OF_WORD = re.compile(r"""[^\s&"']*""")
_REST_OF_SETTING = re.compile(r'[^;\r\n"]*')
_KEY = r"(?:[\w.-]{1,40}|(?:user|initial|data|integrated|application|connect(?:ion)?|persist) [a-z]{2,10})\s?="
_NEXT_SETTING = re.compile(rf'[^;&\r\n"]{{0,{_MAX_CONTEXT_CHARS}}}?(?=[;&]\s?{_KEY})', re.IGNORECASE)
_NAME_OF_SETTING = re.compile(r"\s?[\w .-]{0,40}")
_LINE_OF_HEADER = re.compile(r"(?:[ \t]*|[<>*][ \t]+)[\w-]{0,40}")
_LINE_OF_YAML = re.compile(r"[ \t]+(?:-[ \t]+)?[\w.-]{0,40}")
_QUOTED_HEADER = re.compile(r"""(?:-H|--header)[ =]?\\?["'][\w-]{0,40}\Z""")
_LINE_OF_SETTINGS = re.compile(r"(?:export[ \t]+)?[\w.-]{0,40}")
_ANOTHER_ASSIGNMENT = re.compile(r"\s[\w.-]{1,40}[=:]")


def _redact_assignments(text: str, pattern: re.Pattern[str]) -> str:
    """Hide the values that a pattern matches. Its groups are the name and the value."""
    parts: list[str] = []
    position = 0
    while (match := pattern.search(text, position)) is not None:
        parts += text[position : match.start()], _redact_assigned(match)
        position = _end_of_value(text, match)
    return "".join([*parts, text[position:]])


def _redact_assigned(match: re.Match[str]) -> str:
    name, value = match[1], match[2]
    if _is_harmless(match):
        return match[0]
    quotes = _QUOTED.fullmatch(value)
    return f"{name}{quotes[1]}{REDACTED}{quotes[2]}" if quotes else f"{name}{REDACTED}"


def _is_harmless(match: re.Match[str]) -> bool:
    """Return True if the value is a fact about a secret, or a conversation's id.

    A number of tokens is such a fact.
    """
    name, value = match[1], match[2]
    if (last_name := _END_OF_NAME.search(name)) and is_fact(last_name[1], value.strip(".,;)]}\"'")):
        return True
    if _COUNT.search(name) and value.strip(".,;)]}").isdecimal():
        return True
    return name.startswith(SESSION_ID) and is_uuid(value)


def _end_of_value(text: str, match: re.Match[str]) -> int:
    """Find the end of a value that may contain spaces, using the text around it."""
    name = match[1].rstrip()
    if _is_harmless(match) or _QUOTED.fullmatch(match[2]):
        return match.end()
    line_start = _START_OF_LINE.split(text[max(0, match.start() - _MAX_CONTEXT_CHARS) : match.start()])[-1]
    if name.endswith("="):
        return _end_of_setting(text, match, line_start)
    if name.endswith(":") and _QUOTED_HEADER.search(line_start):
        return _match_end(_REST_IN_QUOTES, text, match.end())
    if name.endswith(":") and (_is_header(line_start, name) or _is_yaml(text, match, line_start)):
        return _match_end(_REST_OF_LINE, text, match.end())
    return _end_of_word(text, match.end())


def _is_header(line_start: str, name: str) -> bool:
    """Return True if the line starts like a header.

    It starts with curl's `<` or `>`, or with the name of a header.
    """
    if " " in name or not _LINE_OF_HEADER.fullmatch(line_start):
        return False
    return line_start[:1] in {"<", ">"} or "-" in line_start + name or name.casefold().startswith("authorization")


def _is_yaml(text: str, match: re.Match[str], line_start: str) -> bool:
    """Return True if the name starts an indented line after the text's first line."""
    return (
        match.start() > len(line_start)
        and _LINE_OF_YAML.fullmatch(line_start) is not None
        and "\n" in text[: match.start()]
    )


def _end_of_setting(text: str, match: re.Match[str], line_start: str) -> int:
    """Find the end of the value in `name=value`.

    It ends before a `;` or `&` that another setting follows, at the end of the line, or with the word.
    """
    earlier, semicolon, setting = line_start.rpartition(";")
    if semicolon and "=" in earlier.rpartition(";")[2] and _NAME_OF_SETTING.fullmatch(setting):
        return _match_end(_REST_OF_SETTING, text, match.start(2))
    if (next_setting := _NEXT_SETTING.match(text, match.start(2))) is not None:
        return next_setting.end()
    if _LINE_OF_SETTINGS.fullmatch(line_start):
        line_end = _match_end(_REST_OF_LINE, text, match.end())
        if not _ANOTHER_ASSIGNMENT.search(text, match.end(), line_end):
            return line_end
    return _end_of_word(text, match.end())


def _end_of_word(text: str, position: int) -> int:
    """Return the end of a word that may contain a semicolon."""
    return _match_end(_REST_OF_WORD, text, position) if ";" in text[position - 1 : position + 1] else position


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return position if match is None else match.end()


def _redact_element(match: re.Match[str]) -> str:
    return match[0] if _is_harmless(match) or not match[2].strip() else f"{match[1]}{REDACTED}"


# -- account numbers ------------------------------------------------------------------------------------------------

MAX_CANDIDATES = 1000
"""Maximum number of possible account numbers that are checked. All text from the next candidate on is hidden."""
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ \u00a0-]?[A-Za-z0-9]){11,30}")
_END_OF_ALPHANUMERICS = re.compile(r"(?<=[A-Za-z0-9])(?![A-Za-z0-9])")


def _redact_accounts(text: str) -> str:
    parts: list[str] = []
    position = 0
    for _ in range(MAX_CANDIDATES):
        match = _ACCOUNT.search(text, position)
        if match is None:
            return "".join([*parts, text[position:]])
        ends = [
            boundary.start()
            for boundary in _END_OF_ALPHANUMERICS.finditer(text, match.start(), min(match.end() + 1, len(text)))
        ]
        numbers = [re.sub(r"[^A-Za-z0-9]", "", text[match.start() : end]) for end in ends]
        account = next(
            (
                (end, number)
                for end, number in zip(ends, numbers, strict=True)
                if iban.is_valid(number, check_country=False)
            ),
            None,
        )
        if account is None:
            parts.append(text[position : match.start() + 1])
            position = match.start() + 1
        else:
            end, number = account
            parts.append(f"{text[position : match.start()]}{REDACTED} {number[-VISIBLE_CHARS:]}")
            position = end
    next_candidate = _ACCOUNT.search(text, position)
    return "".join(
        [*parts, text[position:] if next_candidate is None else text[position : next_candidate.start()] + REDACTED]
    )
