"""Papers of firms that share no layout with one another, drawn by hand, with what each states.

They stand for what no sample holds: labels over values and beside them, rows of labels, seven languages, every way to
write numbers and dates. All firms are made up; their VAT ids and IBANs have right check digits.
"""

from tests.documents.text.strangers.alpine import ALPINE
from tests.documents.text.strangers.german import GERMAN
from tests.documents.text.strangers.northern import NORTHERN
from tests.documents.text.strangers.programs_cloud import PROGRAMS_CLOUD
from tests.documents.text.strangers.programs_mixed import PROGRAMS_MIXED
from tests.documents.text.strangers.programs_north import PROGRAMS_NORTH
from tests.documents.text.strangers.programs_south import PROGRAMS_SOUTH
from tests.documents.text.strangers.programs_trades import PROGRAMS_TRADES
from tests.documents.text.strangers.romance import ROMANCE
from tests.documents.text.strangers.sheet import Stranger

STRANGERS = (
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

__all__ = ["STRANGERS", "Stranger"]
