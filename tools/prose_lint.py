"""Find English that native engineers would not write.

The linter checks code, messages, test names and Markdown. The rules are in tools/prose_rules.toml. A line that quotes
data is exempt with `prose: ignore`.
"""

import ast
import io
import re
import subprocess
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

ROOT = Path(__file__).parents[1]
IGNORE = "prose: ignore"
MAX_SENTENCE_WORDS, MAX_FIRST_LINE_CHARS, MAX_TEST_WORDS = 35, 100, 12
MAX_CLAUSES = 3
"""Number of commas, or of subordinate clauses, at which a sentence is too hard to read."""
MIN_PROSE_WORDS, MIN_CELL_WORDS, MIN_ASCII_SHARE = 4, 3, 0.9

_SKIPPED = re.compile(
    r"^LICENSE$|^tests/fuzz/regressions/|/text/drawn_documents/|(^|/)schema\.sql$|(^|/)(uv|package-lock)\.|^docs/api\.md$"
)
_RULES = tomllib.loads(Path(__file__).with_name("prose_rules.toml").read_text())
_PHRASES = [
    (rule["rule"], rule["instead"], re.compile(rf"(?<![\w'-])(?:{'|'.join(rule['patterns'])})(?![\w-])", re.IGNORECASE))
    for rule in _RULES["phrases"]
]
_COINED = frozenset(_RULES["names"]["coined"])
_OPENING = re.compile(rf"({'|'.join(_RULES['docstrings']['openings'])})\b[ ,:]")
_TEST_NAME = re.compile(
    rf"_({'|'.join(_RULES['test_names']['parts'])})(?=_|$)|^test_({'|'.join(_RULES['test_names']['beginnings'])})_"
)
_CLAUSE = re.compile(
    r"\b(that|which|who|whom|whose|where|when|while|since|until|so that|though|whether|what|if|unless|because|before|"
    r"after|for it|for they)\b",
    re.IGNORECASE,
)
_ENGLISH = re.compile(r"\b(the|a|an|is|are|was|of|to|and|not|no|for|must|cannot|with|this|that|it|its)\b")
_SENTENCE_END = re.compile(
    r"[.!?;](?=[\s\"')]|$)|:\s*\n|\n\s*\n|\n(?=\s*(?:[-*|>=~#\"│├└]|\d+[.)]|[\w.*]+(?: ?\([^)\n]*\))? ?: ))"
)
_SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|FROM|CREATE|ALTER|JOIN|VALUES|GRANT)\b")
_PATTERN = re.compile(r"\\[bdsw]|\(\?[:<=!P]|\{\}\s*\{\}")
_QUOTED = re.compile(r"`[^`]*`|\[([^\]]*)\]\([^)]*\)|https?://\S+")
_SESSION = re.compile(r"^\s*(>>>|\.\.\.|\$ ).*$", re.MULTILINE)
_DIRECTIVE = re.compile(r"(type:|noqa|pragma|fmt:|pylint|mypy|ruff|biome-ignore|@ts-)")
_SCRIPT = re.compile(
    r"//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/|\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>(?:[^'\\\n]|\\.)*)'"
    r"|>(?P<markup>[^<>`${}]{12,})<",
    re.DOTALL,
)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_NO_COMMENT = re.compile(r"^(?:(?!  # |^# ).)*(?:# )?", re.MULTILINE)


class Text(NamedTuple):
    """A text in a file."""

    kind: str
    """`docstring`, `attribute`, `comment`, `string`, `markdown`, `test` or `name`."""
    line: int
    """Number of the text's first line."""
    value: str


class Violation(NamedTuple):
    """A violation of a rule."""

    line: int
    rule: str
    detail: str


def python_texts(source: str) -> Iterator[Text]:
    """Yield a module's docstrings, strings, comments, and class and function names.

    Raises SyntaxError.
    """
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    seen = set[int]()
    for node in nodes:
        for kind, string in _docstrings(node):
            seen.add(id(string))
            yield Text(kind, string.lineno, str(string.value))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kind = "test" if node.name.startswith("test_") else "name"
            yield Text(kind, node.lineno, node.name)
        elif isinstance(node, ast.JoinedStr):
            seen.update(id(value) for value in node.values)
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{x}" for part in node.values)
            yield Text("string", node.lineno, "".join(parts))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            yield Text("string", node.lineno, node.value)
    yield from _python_comments(source)


def script_texts(source: str) -> Iterator[Text]:
    """Yield the comments, strings and markup of a script."""
    comments: list[tuple[int, str]] = []
    for match in _SCRIPT.finditer(source):
        line, group = source.count("\n", 0, match.start()) + 1, match.lastgroup or ""
        if group == "line":
            comments.append((line, match["line"].strip()))
        else:
            yield Text("comment" if group == "block" else "string", line, match[group])
    yield from _blocks(comments)


def markdown_texts(source: str) -> Iterator[Text]:
    """Yield a page's lines and table cells, and the comments in its code blocks."""
    prose = _FENCE.sub(lambda block: _NO_COMMENT.sub("", block[0]), source)
    for number, line in enumerate(prose.splitlines(), 1):
        cells = line.strip("| ").split("|") if line.lstrip().startswith("|") else [line]
        for cell in cells:
            if len(cell.split()) >= MIN_CELL_WORDS:
                yield Text("markdown", number, cell.strip(" #-*"))


def sql_texts(source: str) -> Iterator[Text]:
    """Yield the comments in a SQL file."""
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    yield from _blocks([(number, line[2:].strip()) for number, line in lines if line.startswith("--")])


READERS = {
    ".py": python_texts,
    ".md": markdown_texts,
    ".sql": sql_texts,
    **dict.fromkeys((".js", ".mjs", ".ts", ".tsx"), script_texts),
}


def violations(text: Text) -> Iterator[Violation]:
    """Yield the violations of one text."""
    if text.kind == "name":
        if text.value in _COINED:
            yield Violation(text.line, "coined-name", text.value)
    elif text.kind == "test":
        yield from _test_name(text)
    elif text.kind != "string" or _is_prose(text.value):
        bare = _SESSION.sub("", _QUOTED.sub(lambda quote: quote[1] or "X" if quote[0][0] == "[" else "X", text.value))
        yield from _opening(text)
        for rule, instead, pattern in _PHRASES:
            for match in pattern.finditer(bare):
                line = text.line + bare.count("\n", 0, match.start())
                yield Violation(line, rule, f"'{' '.join(match[0].split())}': {instead}")
        yield from _sentences(text.line, bare)


def check(path: Path) -> list[Violation]:
    """Return a file's violations, except on exempt lines.

    Raises OSError and SyntaxError.
    """
    source = path.read_text(encoding="utf-8", errors="replace")
    lines = source.splitlines()
    return sorted(
        violation
        for text in READERS[path.suffix](source)
        for violation in violations(text)
        if IGNORE not in lines[min(violation.line, len(lines)) - 1]
    )


def tracked(root: Path, paths: list[str]) -> list[str]:
    """Return the files below `paths` that the rules apply to.

    All paths are relative to the Git work tree `root`.
    """
    result = subprocess.run(["git", "ls-files", "--", *paths], cwd=root, capture_output=True, text=True, check=True)
    return [
        name
        for name in result.stdout.splitlines()
        if Path(name).suffix in READERS and not _SKIPPED.search(name) and (root / name).is_file()
    ]


def main(
    paths: Annotated[list[str] | None, typer.Argument(help="Files and folders to check. Default: all.")] = None,
    *,
    count: Annotated[bool, typer.Option("--count", help="Print totals per folder instead of violations.")] = False,
) -> None:
    """Check the English of this project. Exits with 1 if any line violates a rule."""
    totals, lines = Counter[str](), Counter[str]()
    for name in tracked(ROOT, paths or []):
        folder = name.split("/")[0] if "/" in name else "."
        file_violations = check(ROOT / name)
        lines[folder] += (ROOT / name).read_text(errors="replace").count("\n")
        totals[folder] += len(file_violations)
        for violation in file_violations if not count else ():
            typer.echo(f"{name}:{violation.line}: {violation.rule}: {violation.detail}")
    if count:
        for folder, total in sorted(totals.items()):
            typer.echo(f"{folder:10} {total:5} violations, {1000 * total / max(lines[folder], 1):.2f} per 1,000 lines")
    raise typer.Exit(1 if totals.total() else 0)


def _docstrings(node: ast.AST) -> Iterator[tuple[str, ast.Constant]]:
    """Yield the string statements in a node's body with their kinds.

    Each documents the node or the attribute above it.
    """
    body = getattr(node, "body", None)
    for index, child in enumerate(body if isinstance(body, list) else []):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(child.value.value, str):
            has_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            yield "docstring" if index == 0 and has_docstring else "attribute", child.value


def _python_comments(source: str) -> Iterator[Text]:
    whole_lines: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        comment = (token.start[0], token.string.lstrip("#!: "))
        if token.line[: token.start[1]].strip():
            yield from _blocks([comment])
        else:
            whole_lines.append(comment)
    yield from _blocks(whole_lines)


def _blocks(comments: list[tuple[int, str]]) -> Iterator[Text]:
    """Join comments on adjacent lines, so that sentences are complete."""
    block: list[tuple[int, str]] = []
    for line, text in comments:
        if _DIRECTIVE.match(text):
            continue
        if block and line != block[-1][0] + 1:
            yield _joined(block)
            block = []
        block.append((line, text))
    if block:
        yield _joined(block)


def _joined(block: list[tuple[int, str]]) -> Text:
    return Text("comment", block[0][0], "\n".join(text for _, text in block))


def _is_prose(text: str) -> bool:
    """Return whether the text is a sentence, rather than SQL, a pattern or data."""
    return (
        len(text.split()) >= MIN_PROSE_WORDS
        and not _SQL.search(text)
        and not _PATTERN.search(text)
        and _ENGLISH.search(text) is not None
        and sum(character.isascii() for character in text) > MIN_ASCII_SHARE * len(text)
    )


def _test_name(text: Text) -> Iterator[Violation]:
    if match := _TEST_NAME.search(text.value):
        yield Violation(text.line, "test-name", match[0].strip("_"))
    elif text.value.count("_") > MAX_TEST_WORDS:
        yield Violation(text.line, "test-name-long", f"{text.value.count('_')} words")


def _opening(text: Text) -> Iterator[Violation]:
    if text.kind not in {"docstring", "attribute"}:
        return
    match = _OPENING.match(text.value.strip())
    if match and (text.kind == "docstring" or match[1] != "Whether"):
        yield Violation(text.line, "opening", match[1])
    first = text.value.strip().split("\n", 1)[0]
    if text.kind == "docstring" and len(first) > MAX_FIRST_LINE_CHARS:
        yield Violation(text.line, "first-line", f"{len(first)} characters")


def _sentences(first_line: int, text: str) -> Iterator[Violation]:
    """Yield sentences that are too long or have too many clauses."""
    boundaries = [match.end() for match in _SENTENCE_END.finditer(text)]
    for start, end in zip([0, *boundaries], [*boundaries, len(text)], strict=True):
        sentence = text[start:end]
        line = first_line + text.count("\n", 0, end - len(sentence.lstrip()))
        words, commas = len(re.findall(r"[\w'-]{2,}|\ba\b", sentence)), len(re.findall(r",\s", sentence))
        clauses = len(_CLAUSE.findall(sentence))
        if words > MAX_SENTENCE_WORDS and not re.search(r"[{}=<>]{2}|\|", sentence):
            yield Violation(line, "long-sentence", f"{words} words")
        elif commas >= MAX_CLAUSES and clauses >= MAX_CLAUSES:
            yield Violation(line, "subclauses", f"{commas} commas, {clauses} clauses")


if __name__ == "__main__":
    typer.run(main)
