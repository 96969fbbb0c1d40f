"""File names of attachments: made safe to show and to store, and found where there is none."""

import re
import unicodedata

from counterfoil.documents.recognition import FileKind

LONGEST = 150
"""Characters of a name that are kept, its ending among them."""
_ENDINGS = {FileKind.PDF: ".pdf", FileKind.XML: ".xml", FileKind.ZIP: ".zip"}
_IMAGES = ((b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"), (b"BM", ".bmp"), (b"RIFF", ".webp"))
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")


def clean(stated: str) -> str:
    """The last component of a stated name, without what could lead anywhere or deceive a reader; empty if none is left.

    Path separators of any system end a component. Control characters, such that change the direction of writing, and
    what PostgreSQL cannot store are left out; of a name that is too long, the middle.
    """
    last = re.split(r"[/\\]", stated)[-1]
    plain = "".join(" " if character.isspace() else character for character in last if is_shown(character))
    # Windows' own separator of drives, and what no file system takes.
    plain = re.sub(r'[<>:"|?*]', "_", re.sub(r"^[A-Za-z]:", "", plain))
    plain = re.sub(r" +", " ", plain).strip(" .")
    if len(plain) > LONGEST:
        ending = _ENDING.search(plain)
        kept = ending[0] if ending else ""
        plain = plain[: LONGEST - len(kept)].rstrip(" .") + kept
    return plain


def is_shown(character: str) -> bool:
    """False for control, format, surrogate, private and unassigned characters."""
    return character.isspace() or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn"}


def made_up(number: int, kind: FileKind, content: bytes) -> str:
    """A name for the file that is the `number`-th of its mail and has none: `attachment 2.pdf`, by its content."""
    ending = _ENDINGS.get(kind, "")
    if kind is FileKind.IMAGE:
        ending = next((ending for start, ending in _IMAGES if content.startswith(start)), ".img")
    return f"attachment {number}{ending}"
