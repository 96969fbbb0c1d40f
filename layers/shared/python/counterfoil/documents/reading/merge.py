"""Merges fields found by rules with a model's fields, and checks them. Pure.

Fields of which the rules are certain are retained, and the model supplies the other fields. Totals are chosen as a
consistent set. All line items come from one source, preferably the source whose line items add up to the net total.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from counterfoil.documents.matching.names import name as parse_name
from counterfoil.documents.reading.model import GroundedExtraction
from counterfoil.documents.structured import ROLES, DocumentType
from counterfoil.documents.text import totals
from counterfoil.documents.text.page import Evidence

MIN_RULE_CONFIDENCE = 0.75
"""Minimum confidence at which a model cannot replace a field found by rules."""

_TOTALS = ("total_net", "total_tax", "total_gross")
_LINES = "line_items"


@dataclass(frozen=True)
class ReadFields:
    """Type, fields and evidence of a document. Fields are named as in `structured`."""

    type: DocumentType
    fields: Mapping[str, Any]
    evidence: Mapping[str, Evidence]
    warnings: tuple[str, ...] = ()


def merge_fields(by_rules: ReadFields | None, by_model: GroundedExtraction) -> ReadFields:
    """Return the merged fields.

    If the types differ, only the fields of one source are returned.

    These are the rules' fields if the rules are certain of the document number or the model's type is `other`, and
    otherwise the model's fields.
    """
    model = ReadFields(by_model.type, by_model.fields, by_model.evidence, by_model.warnings)
    if by_rules is None:
        return model
    if by_rules.type is not model.type:
        roles = ROLES.get(by_rules.type)
        is_certain = roles is not None and _confidence(by_rules, roles.number) >= MIN_RULE_CONFIDENCE
        return by_rules if is_certain or model.type is DocumentType.OTHER else model
    model = _without_other_parties(by_rules, model)
    by_path = {path: value for path, value in _flatten(model.fields) if path not in _TOTALS}
    for path, value in _flatten(by_rules.fields):
        if path not in _TOTALS and (path not in by_path or _confidence(by_rules, path) >= MIN_RULE_CONFIDENCE):
            by_path[path] = value
    fields = _nest(by_path)
    fields |= _totals(by_rules, model)
    lines = _believed_lines(by_rules, model, fields)
    if lines is not None:
        fields[_LINES] = lines.fields[_LINES]
    return ReadFields(
        by_rules.type, fields, dict(_evidence(fields, by_rules, model)), (*by_rules.warnings, *model.warnings)
    )


def _without_other_parties(rules: ReadFields, model: ReadFields) -> ReadFields:
    """Return the model's fields, except parties that contradict the rules.

    Only parties that the rules read with certainty count. The model's data about one company must not fill the gaps of
    another.
    """
    roles = ROLES.get(rules.type)
    sides = (roles.seller, roles.buyer) if roles is not None else ()
    differing = {
        side
        for side in sides
        if _confidence(rules, f"{side}.name") >= MIN_RULE_CONFIDENCE
        and side in model.fields
        and not _is_same_company(rules.fields[side], model.fields[side])
    }
    return replace(model, fields={name: value for name, value in model.fields.items() if name not in differing})


def _is_same_company(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    if first.get("vat_id") is not None and first.get("vat_id") == second.get("vat_id"):
        return True
    return parse_name(first["name"]).core == parse_name(second.get("name", "")).core


def _confidence(read_fields: ReadFields, path: str) -> float:
    evidence = read_fields.evidence.get(path)
    return evidence.confidence if evidence is not None else 0.0


def _flatten(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields by path, without line items."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{part}", part_value) for part, part_value in value.items())
        elif name != _LINES:
            yield name, value


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for path, value in flat.items():
        name, _, part = path.partition(".")
        if part:
            fields.setdefault(name, {})[part] = value
        else:
            fields[name] = value
    return fields


def _totals(rules: ReadFields, model: ReadFields) -> dict[str, Any]:
    """Return the consistent totals with the fewest gaps.

    The rules' totals are preferred in case of a tie.
    """
    rule_totals, model_totals = (
        {name: source.fields[name] for name in _TOTALS if name in source.fields} for source in (rules, model)
    )
    certain = {name: value for name, value in rule_totals.items() if _confidence(rules, name) >= MIN_RULE_CONFIDENCE}
    return max(
        [rule_totals, {**model_totals, **certain}, {**model_totals, **rule_totals}],
        key=lambda totals: (totals_agree(totals), len(totals)),
    )


def _believed_lines(rules: ReadFields, model: ReadFields, fields: Mapping[str, Any]) -> ReadFields | None:
    """Return the source whose line items best agree with the net total.

    The rules win a tie. Returns None if neither source has line items.
    """
    ranks = {True: 2, None: 1, False: 0}
    candidates = [source for source in (rules, model) if source.fields.get(_LINES)]
    return max(candidates, key=lambda source: ranks[lines_agree(source.fields[_LINES], fields)], default=None)


def _evidence(fields: Mapping[str, Any], rules: ReadFields, model: ReadFields) -> Iterator[tuple[str, Evidence]]:
    """Yield the evidence for each field from its source.

    If both sources agree, the confidence is higher.
    """
    rule_values, model_values = dict(_paths(rules.fields)), dict(_paths(model.fields))
    for path, value in _paths(fields):
        origin = rules if path in rule_values and rule_values[path] == value else model
        evidence = origin.evidence.get(path)
        if evidence is None:
            continue
        other = model.evidence.get(path) if origin is rules and model_values.get(path) == value else None
        uncertainty = (1 - evidence.confidence) * (1 - other.confidence if other is not None else 1)
        yield path, Evidence(evidence.source, round(1 - uncertainty, 4), evidence.page)


def _paths(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from _flatten(fields)
    lines: Sequence[Mapping[str, Any]] = fields.get(_LINES) or ()
    for place, line in enumerate(lines):
        yield from ((f"{_LINES}.{place}.{name}", value) for name, value in line.items())


MIN_CONFIDENCE = 0.6
"""Minimum confidence in an essential field."""

_BILLED = ("currency", "total_gross", "line_items")
_ESSENTIAL: Mapping[DocumentType, tuple[str, ...]] = MappingProxyType(
    {
        DocumentType.INVOICE: _BILLED,
        DocumentType.CREDIT_NOTE: _BILLED,
        DocumentType.PURCHASE_ORDER: ("line_items",),
        DocumentType.ORDER_CONFIRMATION: ("line_items",),
        DocumentType.DELIVERY_NOTE: ("line_items",),
        DocumentType.GOODS_RECEIPT: ("line_items",),
        DocumentType.CONTRACT: (),
    }
)
"""Required fields by type, besides number, date and the names of both parties."""


@dataclass(frozen=True)
class Completeness:
    """Problems in an extraction: missing or uncertain fields, and contradictions.

    Fields are stated as paths, and contradictions as sentences.
    """

    missing: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """True if there are no problems."""
        return not (self.missing or self.contradictions or self.uncertain)


def check_completeness(
    type_: DocumentType, fields: Mapping[str, Any], evidence: Mapping[str, Evidence]
) -> Completeness:
    """Check a document's required fields and the sums of its amounts.

    The type `other` has no required fields.
    """
    paths = tuple(required_fields(type_))
    missing = tuple(path for path in paths if not _value_at(fields, path))
    uncertain = tuple(path for path in paths if path in evidence and evidence[path].confidence < MIN_CONFIDENCE)
    return Completeness(missing, tuple(inconsistencies(fields)), uncertain)


def required_fields(type_: DocumentType) -> Iterator[str]:
    """Yield the paths of a type's required fields."""
    roles = ROLES.get(type_)
    if roles is not None:
        yield from (roles.number, roles.date, f"{roles.seller}.name", f"{roles.buyer}.name")
        yield from _ESSENTIAL[type_]


def inconsistencies(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each contradiction between amounts, by field name."""
    if not totals_agree(fields):
        yield "total_net and total_tax do not add up to total_gross."
    lines = fields.get("line_items") or ()
    if lines_agree(lines, fields) is False:
        yield "The net amounts of the line items do not add up to total_net."


def totals_agree(fields: Mapping[str, Any]) -> bool:
    """Return whether net and tax add up to the gross total.

    True if one of them is not stated.
    """
    net, tax, gross = (_decimal(fields.get(name)) for name in ("total_net", "total_tax", "total_gross"))
    return net is None or tax is None or gross is None or totals.gross_agrees(net, tax, gross)


def lines_agree(lines: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> bool | None:
    """Return whether the line items add up to the net total.

    Returns None if an amount is missing.
    """
    net = _decimal(fields.get("total_net"))
    amounts = [_decimal(line.get("net_amount")) for line in lines]
    known_amounts = [amount for amount in amounts if amount is not None]
    if net is None or not known_amounts or len(known_amounts) < len(amounts):
        return None
    return totals.sum_agrees(known_amounts, net)


def _value_at(fields: Mapping[str, Any], path: str) -> Any:
    value: Any = fields
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _decimal(value: Any) -> Decimal | None:
    try:
        return None if value is None else Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        return None
