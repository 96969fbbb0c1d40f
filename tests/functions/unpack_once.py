"""Unpack one archive in child processes.

Prints JSON with the peak memory of parent and child in MiB, and the size or skip reason of each file.
"""

import json
import sys
from pathlib import Path

from counterfoil.documents.mail.attachments import SkippedAttachment
from counterfoil.documents.sandbox import parsers, process
from tests.peak_memory import peak_megabytes, peak_megabytes_of_children


def main() -> None:
    """Unpack the archive named on the command line."""
    files = parsers.unpack_archive(Path(sys.argv[1]).read_bytes())
    assert files is not None
    results = [file.reason if isinstance(file, SkippedAttachment) else len(file.content) for file in files]
    process.close_idle()
    print(json.dumps([peak_megabytes(), peak_megabytes_of_children(), results]))  # noqa: T201


if __name__ == "__main__":
    main()
