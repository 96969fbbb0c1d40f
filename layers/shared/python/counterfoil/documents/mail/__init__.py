"""Files that hold files, mail and archives: what they say of themselves, and the documents in them.

Everything here is pure: bytes in, values out. `message` reads a mail, `archive` a ZIP, `attachments` walks through
both; `recipients` finds out whom a mail is for.
"""
