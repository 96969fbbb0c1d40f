"""Codes of document types: UNTDID 1001, in the parts that EN 16931 admits."""

CREDIT_NOTE_CODES = frozenset({"81", "83", "261", "262", "296", "308", "381", "396", "420", "458", "502", "503", "532"})
"""The codes of credit notes. All others that occur in an invoice message are invoices, 384 (corrected) among them."""

ORDER_CHANGE_CODE = "230"
ORDER_RESPONSE_CODE = "231"
