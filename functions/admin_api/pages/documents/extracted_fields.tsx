// A document's extracted fields, with confidence and page.

import type { Schemas } from "../api";
import { formatDay, formatDecimal, formatMoney, formatNumber, formatPercent, toLabel } from "../ui/format";
import { KINDS } from "./summary";

type Field = Schemas["DocumentField"];
type ExtractedDocument = Pick<Schemas["Document"], "type" | "fields" | "lines" | "lines_total">;

const SHOWN_BELOW = 0.95; // lower confidence is shown
const COLUMNS = [
  "position",
  "article_number",
  "buyer_article_number",
  "description",
  "quantity",
  "unit",
  "unit_price",
  "net_amount",
];
const FIRST = ["name", "vat_id", "tax_number", "street", "postal_code", "city", "country"];
const MONEY = ["total_net", "total_tax", "total_gross", "unit_price", "net_amount"];
const DECIMALS = ["quantity", "rejected_quantity", "price_basis_quantity"];
const NUMERIC = [...MONEY, ...DECIMALS, "tax_rate"];
// Labels of fields whose API names clerks would not understand.
const LABELS: Record<string, string> = {
  confirmation_date: "Order confirmation date",
  confirmation_number: "Order confirmation number",
  endpoint_id: "Electronic address",
  order_date: "Purchase order date",
  po_line: "Purchase order line item",
  po_number: "Purchase order number",
  position: "Line item",
  receipt_date: "Goods receipt date",
  receipt_number: "Goods receipt number",
  total_gross: "Gross total",
  total_net: "Net total",
  total_tax: "Tax total",
};
const labelOf = (name: string) =>
  LABELS[name] ?? toLabel(name.replace(/^po_/, "purchase_order_").replace(/_reference$/, ""));
const PARTIES: Record<string, string> = { issuer: "Supplier", recipient: "Buyer" };

// Returns a party's role. The issuer of a document of another type may be anyone.
const partyLabel = (party: string, type: string | null) =>
  (KINDS.includes(type ?? "") && PARTIES[party]) || toLabel(party);

const isStated = ({ value }: { value: unknown }) =>
  value !== null && value !== "" && !(Array.isArray(value) && !value.length);

// Formats lists and objects as text, with a label before each value of an object.
function formatNested(value: unknown): string {
  if (Array.isArray(value)) {
    return value.map(formatNested).join(value.some((one) => one && typeof one === "object") ? "; " : ", ");
  }
  if (value && typeof value === "object") {
    return Object.entries(value)
      .map(([name, one]) => `${labelOf(name)}: ${formatNested(one)}`)
      .join(", ");
  }
  return String(value ?? "");
}

// Formats a value by the name of its field.
function formatValue(field: Field, currency: string | null) {
  const { value, unit_name } = field;
  const name = nameOf(field);
  if (typeof value === "object") {
    return formatNested(value);
  }
  const text = String(value);
  if (name === "iban") {
    return text.replace(/\s/g, "").replace(/.{4}(?=.)/g, "$& ");
  }
  if (MONEY.includes(name)) {
    return formatMoney(text, currency);
  }
  if (DECIMALS.includes(name)) {
    return formatDecimal(text);
  }
  if (name === "tax_rate") {
    return `${formatDecimal(text)}%`;
  }
  return name.endsWith("date") ? formatDay(text) : (unit_name ?? text);
}

// Fields of the whole document by the ends of their names: number, dates, references, then amounts.
const HEADER = [
  /_number$/,
  /^(?!payment).*_date$/,
  /_reference$/,
  /^payment/,
  /^(?!total|currency)/,
  /^currency/,
  /^total/,
];
const headerRank = (name: string) => HEADER.findIndex((pattern) => pattern.test(name));
const sortNames = (names: string[], order: string[]) => [
  ...order.filter((name) => names.includes(name)),
  ...names.filter((name) => !order.includes(name)),
];

// Returns the currency of a document's amounts, or null if none is stated.
function currencyOf({ fields }: ExtractedDocument) {
  const currency = fields.find(({ path }) => path === "currency")?.value ?? null;
  return typeof currency === "string" ? currency : null;
}

// Shows extracted values: plain fields, then parties.
export function Fields({ doc, turn }: { doc: ExtractedDocument; turn: ((page: number) => void) | null }) {
  const stated = doc.fields.filter(isStated);
  if (!stated.length && !doc.lines.length) {
    return (
      <section aria-labelledby="fields">
        <h2 id="fields">Extracted fields</h2>
        <p class="muted">No fields were extracted, or extraction is still in progress.</p>
      </section>
    );
  }
  const currency = currencyOf(doc);
  const groups = [...new Set(stated.map(({ path }) => path.split(".").slice(0, -1).join(".")))].sort(
    (one, other) => Number(Boolean(one)) - Number(Boolean(other)),
  );
  return (
    <section aria-labelledby="fields">
      <h2 id="fields">Extracted fields</h2>
      {groups.map((group) => {
        const groupFields = stated.filter(({ path }) => path.split(".").slice(0, -1).join(".") === group);
        const names = group
          ? sortNames(groupFields.map(nameOf), FIRST)
          : groupFields.map(nameOf).sort((one, other) => headerRank(one) - headerRank(other));
        return (
          <>
            {group && <h3>{partyLabel(group, doc.type)}</h3>}
            <dl class="extracted-fields">
              {names
                .flatMap((name) => groupFields.filter((one) => nameOf(one) === name).slice(0, 1))
                .map((field) => (
                  <FieldRow field={field} currency={currency} turn={turn} />
                ))}
            </dl>
          </>
        );
      })}
    </section>
  );
}

// Shows the line items as a table of the page's full width.
export function LineItems({ doc }: { doc: ExtractedDocument }) {
  const { lines, lines_total: total } = doc;
  if (!lines.length) {
    return null;
  }
  return (
    <section aria-labelledby="line-items">
      <h2 id="line-items">Line items</h2>
      <LineTable lines={lines} currency={currencyOf(doc)} />
      {total > lines.length && (
        <p class="muted">
          The first {formatNumber(lines.length)} of {formatNumber(total)} line items are shown.
        </p>
      )}
    </section>
  );
}

const alignmentOf = (name: string) => (NUMERIC.includes(name) ? "count" : "");

const nameOf = ({ path }: { path: string }) => path.slice(path.lastIndexOf(".") + 1);

function FieldRow({
  field,
  currency,
  turn,
}: {
  field: Field;
  currency: string | null;
  turn: ((page: number) => void) | null;
}) {
  const { confidence, page } = field;
  return (
    <div>
      <dt>{labelOf(nameOf(field))}</dt>
      <dd>
        {formatValue(field, currency)}
        {confidence !== null && confidence < SHOWN_BELOW && (
          <>
            {" "}
            <span class="uncertain">{formatPercent(confidence)} confidence</span>
          </>
        )}
        {page !== null && turn && (
          <>
            {" "}
            <button
              type="button"
              class="link"
              onClick={() => turn(page)}
              aria-label={`Show page ${page}, which contains this value`}
            >
              page {page}
            </button>
          </>
        )}
      </dd>
    </div>
  );
}

function LineTable({ lines, currency }: { lines: Field[][]; currency: string | null }) {
  const rows = lines.map((line) => new Map(line.filter(isStated).map((field) => [nameOf(field), field])));
  const columns = sortNames([...new Set(rows.flatMap((row) => [...row.keys()]))], COLUMNS);
  return (
    <div class="scrollable" tabindex={0} role="region" aria-label="Table of line items">
      <table class="rows">
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={alignmentOf(column)}>
                {labelOf(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {columns.map((column) => {
                const field = row.get(column);
                return (
                  <td data-label={labelOf(column)} class={alignmentOf(column)}>
                    {field && formatValue(field, currency)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
