"""Generates two tenants with suppliers, documents and ground truth from a seed.

The seed determines companies, numbers, dates, articles, quantities, prices, file formats, how often each scenario
occurs, and the order of the files. Every scenario occurs for every seed.
"""

# ruff: noqa: RUF001 - a file name with typographic apostrophes

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from random import Random

from tools.sample_generator import scenarios, trading, unreadable_files
from tools.sample_generator.catalog import PRODUCT_LINES, ProductLine
from tools.sample_generator.cii import write_cii
from tools.sample_generator.companies import CompanyRegistry, slug
from tools.sample_generator.labels import LABELS
from tools.sample_generator.model import Document, Kind
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.pdf import write_hybrid
from tools.sample_generator.sample import FileTruth, Sample, SampleFile, TrueLink
from tools.sample_generator.scenarios import Form, GeneratedFile, ScenarioBuilder
from tools.sample_generator.trading import PurchaseContext, price_list
from tools.sample_generator.ubl import write_ubl

_SUPPLIERS_PER_TENANT = 5
_COMMON = (
    scenarios.full_chain,
    scenarios.short_chain,
    scenarios.partial_deliveries_billed_apart,
    scenarios.partial_deliveries_billed_once,
    scenarios.duplicate_invoice,
    scenarios.invoice_by_content,
    scenarios.unknown_order,
)
_RARE = (
    scenarios.rejected_and_credited,
    scenarios.same_number_of_two_suppliers,
    scenarios.invoice_by_delivery_note,
)
_WRITERS: dict[Form, Callable[[Document], bytes]] = {
    Form.UBL: write_ubl,
    Form.CII: write_cii,
    Form.HYBRID: write_hybrid,
}


@dataclass
class _TenantFiles:
    """One tenant's files. Their names are unique regardless of case."""

    tenant: str
    files: list[SampleFile]
    names: set[str]

    def add(self, name: str, content: bytes, truth: FileTruth) -> SampleFile:
        stem, dot, extension = name.replace("/", "-").rpartition(".")
        unique, count = f"{stem}{dot}{extension}", 1
        while unique.casefold() in self.names:
            count += 1
            unique = f"{stem} ({count}){dot}{extension}"
        self.names.add(unique.casefold())
        file = SampleFile(self.tenant, unique, content, truth)
        self.files.append(file)
        return file


def generate(seed: int) -> Sample:
    """Generate a seed's sample.

    The same seed always gives identical files in the same order.
    """
    rng = Random(f"counterfoil sample {seed}")  # noqa: S311 - repeatable on purpose, nothing is secret
    builders = _create_builders(rng)
    _add_scenarios(rng, builders)
    _share_files(rng, *builders)
    tenant_files = {builder.tenant: _TenantFiles(builder.tenant, [], set()) for builder in builders}
    names: dict[GeneratedFile, SampleFile] = {}
    contents: dict[tuple[int, Form], tuple[str, bytes]] = {}
    for builder in builders:
        for generated in builder.generated_files:
            # A document that both tenants have is rendered and named once, so that the copies are identical.
            key = (id(generated.document), generated.form)
            if key not in contents:
                contents[key] = (_file_name(rng, generated), _WRITERS[generated.form](generated.document))
            names[generated] = tenant_files[builder.tenant].add(*contents[key], _truth(generated))
    for builder in builders:
        _add_duplicates(rng, builder, tenant_files[builder.tenant], names)
    _add_unreadable_files(rng, builders, tenant_files)
    links = [
        TrueLink(builder.tenant, names[link.a].name, names[link.b].name, link.kind, link.stated)
        for builder in builders
        for link in builder.links
    ]
    files = _shuffled(rng, [file for builder in builders for file in tenant_files[builder.tenant].files], links)
    return Sample(seed, files, sorted(links, key=lambda link: (link.tenant, link.a, link.b)))


def _create_builders(rng: Random) -> tuple[ScenarioBuilder, ScenarioBuilder]:
    """Create two tenants in different countries, with domestic and foreign suppliers.

    One of each tenant's foreign suppliers is Swiss.
    """
    registry, numbers = CompanyRegistry(rng), Numbers(rng)
    countries = (rng.choice(("DE", "FR")), rng.choice(("GB", "IT", "NL")))
    opened = trading.workday(date(rng.choice((2024, 2025)), 1, 2), rng.randint(0, 120))
    builders = []
    for country, buyer_numbers in zip(countries, rng.sample((True, False), 2), strict=True):
        buyer = registry.buyer(country)
        suppliers = [
            price_list(rng, registry.supplier(product_line), product_line, buyer_numbers=buyer_numbers)
            for product_line in _choose_product_lines(rng, country)
        ]
        builders.append(ScenarioBuilder(slug(buyer.short_name), buyer, suppliers, rng, numbers, opened))
    return builders[0], builders[1]


def _choose_product_lines(rng: Random, country: str) -> list[ProductLine]:
    domestic = [product_line for product_line in PRODUCT_LINES if product_line.country == country]
    swiss = [product_line for product_line in PRODUCT_LINES if product_line.country == "CH"]
    pounds_or_euros = [
        product_line for product_line in PRODUCT_LINES if product_line.country == ("GB" if country != "GB" else "FR")
    ]
    chosen = [*domestic, *swiss, rng.choice(pounds_or_euros)]
    others = [product_line for product_line in PRODUCT_LINES if product_line not in chosen]
    return [*chosen, *rng.sample(others, _SUPPLIERS_PER_TENANT - len(chosen))]


def _add_scenarios(rng: Random, builders: Sequence[ScenarioBuilder]) -> None:
    """Add common scenarios to both tenants, and each rare scenario to one.

    Invoices use all forms in turn.
    """
    rare = rng.sample(_RARE, len(_RARE))
    cut = rng.randint(1, len(rare) - 1)
    for builder, share in zip(builders, (rare[:cut], rare[cut:]), strict=True):
        cases = [*_COMMON, *[scenarios.short_chain] * rng.randint(0, 1), *share]
        rng.shuffle(cases)
        forms = rng.sample(list(Form), len(Form))
        for index, case in enumerate(cases):
            case(builder, forms[index % len(forms)])


def _share_files(rng: Random, first: ScenarioBuilder, second: ScenarioBuilder) -> None:
    """Copy a whole transaction and a single invoice from one tenant to the other.

    The invoice is copied without its order.
    """
    source, target = rng.sample((first, second), 2)
    clusters = {generated.situation: generated.cluster for generated in source.generated_files}
    scenarios.copy_transaction(source, target, clusters["order, delivery, invoice"])
    scenarios.copy_invoice(source, target, clusters["full chain"])


def _file_name(rng: Random, generated: GeneratedFile) -> str:
    """Return a file name in the company's language.

    It may contain spaces and non-ASCII letters.
    """
    document = generated.document
    title, company = LABELS[document.issuer.language].titles[document.kind], document.issuer.short_name
    stem = rng.choice(
        (
            f"{title} {document.number}",
            f"{title} {company} {document.number}",
            f"{document.issue_date:%Y-%m-%d} {title} {document.number}",
            f"{company}_{document.number}",
            f"{title} {document.number} ({company})",
        )
    )
    return f"{stem}.{'pdf' if generated.form is Form.HYBRID else 'xml'}"


def _truth(generated: GeneratedFile) -> FileTruth:
    document = generated.document
    return FileTruth(
        state="succeeded",
        type=document.kind,
        situation=generated.situation,
        reason=generated.reason,
        received_at=generated.received,
        number=document.number,
        cluster=generated.cluster,
        structured_data=document.structured_data,
    )


def _add_duplicates(
    rng: Random, builder: ScenarioBuilder, target: _TenantFiles, names: dict[GeneratedFile, SampleFile]
) -> None:
    """Add copies of one or two invoices and of an order under different names."""
    invoices = [generated for generated in builder.generated_files if generated.document.kind is Kind.INVOICE]
    orders = [generated for generated in builder.generated_files if generated.document.kind is Kind.PURCHASE_ORDER]
    for generated in [*rng.sample(invoices, rng.randint(1, 2)), *rng.sample(orders, 1)]:
        original = names[generated]
        truth = FileTruth(
            state="duplicate",
            type=original.truth.type,
            situation="exact duplicate",
            reason="the tenant already has a file with the same bytes, so there is no second document",
            received_at=generated.received + timedelta(days=1, minutes=rng.randint(1, 300)),
            number=original.truth.number,
            same_as=original.name,
        )
        target.add(f"{LABELS[builder.buyer.language].copy} {original.name}", original.content, truth)


def _add_unreadable_files(
    rng: Random, builders: Sequence[ScenarioBuilder], tenant_files: dict[str, _TenantFiles]
) -> None:
    """Add the unreadable files, each to one of the tenants."""

    def unmatched_invoice() -> Document:
        """Create an invoice whose order is not in the sample."""
        builder = rng.choice(builders)
        context = PurchaseContext(rng, builder.numbers, builder.buyer, rng.choice(builder.suppliers))
        order = trading.place_order(context, trading.workday(builder.start_date, rng.randint(30, 90)), 3)
        quantities = trading.all_of(order)
        day = trading.workday(order.issue_date, 9)
        return trading.bill(context, order, quantities, day, {"po_reference": order.number})

    files = (
        (
            "failed",
            None,
            "Scan übertragen 1+2.pdf",
            unreadable_files.truncated_pdf(unmatched_invoice()),
            "the PDF is truncated",
        ),
        (
            "failed",
            None,
            "Rechnung vertraulich (€).pdf",
            unreadable_files.locked_pdf(unmatched_invoice()),
            "the PDF requires a password",
        ),
        ("failed", None, "aperçu.pdf", unreadable_files.pdf_without_pages(), "the PDF has no pages"),
        ("failed", None, "leere Datei.xml", b"", "the file is empty"),
        (
            "failed",
            None,
            "facture entité.xml",
            unreadable_files.xml_with_doctype(unmatched_invoice()),
            "the XML has a DOCTYPE, which is rejected",
        ),
        (
            "failed",
            None,
            "invoice no number.xml",
            unreadable_files.xml_without_number(unmatched_invoice()),
            "the invoice has no number",
        ),
        (
            "failed",
            None,
            "fattura interrotta.xml",
            unreadable_files.xml_cut_off(unmatched_invoice()),
            "the XML is truncated",
        ),
        (
            "failed",
            None,
            "Größe geprüft.xml",
            unreadable_files.xml_in_wrong_encoding(unmatched_invoice()),
            "the XML declares UTF-8 but contains Latin-1",
        ),
        (
            "skipped",
            None,
            "Facture papier numérisée.pdf",
            unreadable_files.scanned_pdf(unmatched_invoice()),
            "a scan without text",
        ),
        (
            "skipped",
            "other",
            "Inventur Halle 2.xml",
            unreadable_files.stock_list(rng),
            "XML of an unsupported type",
        ),
        ("skipped", "other", "Übergabe à l’équipe.txt", unreadable_files.note(rng), "a plain text file"),
        ("skipped", "other", "données 100% brutes.dat", unreadable_files.noise(rng), "an unknown file type"),
    )
    for state, kind, name, content, reason in files:
        builder = rng.choice(builders)
        moment = datetime.combine(
            trading.workday(builder.start_date, rng.randint(20, 110)), time(rng.randint(7, 16), 30)
        )
        situation = "unreadable" if state == "failed" else "not read"
        tenant_files[builder.tenant].add(name, content, FileTruth(state, kind, situation, reason, moment))


def _shuffled(rng: Random, files: list[SampleFile], links: Sequence[TrueLink]) -> list[SampleFile]:
    """Shuffle the files, with each original before its copies and duplicates."""
    random_ranks = {(file.tenant, file.name): rng.random() for file in files}
    originals = {(file.tenant, file.name): file.truth.same_as for file in files}
    originals |= {(link.tenant, link.a): link.b for link in links if link.kind == "duplicate-original"}

    def rank(tenant: str, name: str) -> float:
        original, own_rank = originals[tenant, name], random_ranks[tenant, name]
        return own_rank if original is None else max(own_rank, math.nextafter(rank(tenant, original), 2))

    return sorted(files, key=lambda file: rank(file.tenant, file.name))
