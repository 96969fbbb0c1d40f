"""Mail and archives: their headers, the documents in them, and mail that waits for a decision.

`message` and `attachments` are pure: bytes in, values out. `holds` stores what waits.
"""
