"""Documents drawn by code in many layouts, each with its expected data.

The documents cover layouts that the sample generator does not produce: labels above or beside values, rows of labels,
seven languages, and many notations of numbers and dates. All companies are fictitious. Their VAT ids and IBANs have
valid check digits.
"""

from tests.documents.text.drawn_documents.alpine import ALPINE
from tests.documents.text.drawn_documents.german import GERMAN
from tests.documents.text.drawn_documents.northern import NORTHERN
from tests.documents.text.drawn_documents.programs_cloud import PROGRAMS_CLOUD
from tests.documents.text.drawn_documents.programs_mixed import PROGRAMS_MIXED
from tests.documents.text.drawn_documents.programs_north import PROGRAMS_NORTH
from tests.documents.text.drawn_documents.programs_south import PROGRAMS_SOUTH
from tests.documents.text.drawn_documents.programs_trades import PROGRAMS_TRADES
from tests.documents.text.drawn_documents.romance import ROMANCE
from tests.documents.text.drawn_documents.sheet import DrawnDocument

DRAWN_DOCUMENTS = (
    *GERMAN,
    *ALPINE,
    *ROMANCE,
    *NORTHERN,
    *PROGRAMS_NORTH,
    *PROGRAMS_SOUTH,
    *PROGRAMS_MIXED,
    *PROGRAMS_CLOUD,
    *PROGRAMS_TRADES,
)

__all__ = ["DRAWN_DOCUMENTS", "DrawnDocument"]
