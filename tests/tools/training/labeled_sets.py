"""Small labeled sets for training: orders and invoices from two suppliers."""

from pathlib import Path

from tests.documents.matching.samples import OTHER_SELLER, SELLER, SampleDocument, invoice, line, order
from tests.tools.evaluation.test_evaluate import write_set
from tools.evaluation.labeled_set import LabeledSet, read_set


def orders_and_invoices(folder: Path, size: int, tenant: str) -> LabeledSet:
    """Create `size` orders, each with an invoice.

    Every third invoice has no reference number, and every fifth is sent twice.
    """
    documents: list[SampleDocument] = []
    edges = ["a,b"]
    for number in range(size):
        goods = [line(f"{tenant}-{number}", str(number + 3), f"{number + 2}.50"), line("COMMON")]
        seller = SELLER if number % 2 else OTHER_SELLER
        documents.append(order(f"{tenant}{4000 + number}", number, seller=seller, lines=goods))
        named = {} if number % 3 == 0 else {"po_reference": f"{tenant}{4000 + number}"}
        invoice_ = invoice(f"R-{number}", number + 9, seller=seller, lines=goods, **named)
        documents.append(invoice_)
        edges.append(f"p{len(documents) - 2},p{len(documents) - 1}")
        if number % 5 == 0:
            documents.append(invoice_)
            edges.append(f"p{len(documents) - 2},p{len(documents) - 1}")
    return read_set(write_set(folder, documents, tenant, edges_csv="\n".join(edges) + "\n"))
