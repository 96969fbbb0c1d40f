"""Small labelled sets for learning: orders of a few sellers, and invoices for them, named and not."""

from pathlib import Path

from tests.documents.matching.papers import OTHER_SELLER, SELLER, Paper, invoice, line, order
from tests.tools.evaluation.test_evaluate import write_set
from tools.evaluation.labeled_set import LabelledSet, read_set


def orders_and_invoices(folder: Path, size: int, tenant: str) -> LabelledSet:
    """So many orders, each with its invoice; every third invoice names no number, every fifth is sent twice."""
    papers: list[Paper] = []
    edges = ["a,b"]
    for number in range(size):
        goods = [line(f"{tenant}-{number}", str(number + 3), f"{number + 2}.50"), line("COMMON")]
        seller = SELLER if number % 2 else OTHER_SELLER
        papers.append(order(f"{tenant}{4000 + number}", number, seller=seller, lines=goods))
        named = {} if number % 3 == 0 else {"po_reference": f"{tenant}{4000 + number}"}
        bill = invoice(f"R-{number}", number + 9, seller=seller, lines=goods, **named)
        papers.append(bill)
        edges.append(f"p{len(papers) - 2},p{len(papers) - 1}")
        if number % 5 == 0:
            papers.append(bill)
            edges.append(f"p{len(papers) - 2},p{len(papers) - 1}")
    return read_set(write_set(folder, papers, tenant, edges_csv="\n".join(edges) + "\n"))
