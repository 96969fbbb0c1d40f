"""Mail and archives: their headers, the documents in them, and mail on hold.

`message` and `attachments` are pure. `holds` stores mail on hold.
"""
