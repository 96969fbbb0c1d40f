// A document's extracted fields, with confidence and page.

import type { Schemas } from "../api";
import { formatDay, formatDecimal, formatMoney, formatNumber, formatPercent, toLabel } from "../ui/format";

type Field = Schemas["DocumentField"];

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
const isStated = ({ value }: { value: unknown }) =>
  value !== null && value !== "" && !(Array.isArray(value) && !value.length);

// Formats a value by the name of its field.
function formatValue(field: Field, currency: string | null) {
  const { value, unit_name } = field;
  const name = nameOf(field);
  if (typeof value === "object") {
    const isFlat = Array.isArray(value) && value.every((one) => typeof one !== "object");
    return isFlat ? value.join(", ") : JSON.stringify(value);
  }
  const text = String(value);
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

// Shows extracted values: plain fields, then parties, then line items.
export function Fields({
  fields,
  lines,
  total,
  turn,
}: {
  fields: Field[];
  lines: Field[][];
  total: number;
  turn: ((page: number) => void) | null;
}) {
  const stated = fields.filter(isStated);
  const currency = stated.find(({ path }) => path === "currency")?.value ?? null;
  const money = typeof currency === "string" ? currency : null;
  if (!stated.length && !lines.length) {
    return (
      <section aria-labelledby="fields">
        <h2 id="fields">Extracted fields</h2>
        <p class="muted">No fields were extracted, or extraction is still in progress.</p>
      </section>
    );
  }
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
            {group && <h3>{toLabel(group)}</h3>}
            <dl class="extracted-fields">
              {names
                .flatMap((name) => groupFields.filter((one) => nameOf(one) === name).slice(0, 1))
                .map((field) => (
                  <FieldRow field={field} currency={money} turn={turn} />
                ))}
            </dl>
          </>
        );
      })}
      {lines.length > 0 && (
        <>
          <h3>Line items</h3>
          <LineTable lines={lines} currency={money} />
          {total > lines.length && (
            <p class="muted">
              The first {formatNumber(lines.length)} of {formatNumber(total)} line items are shown.
            </p>
          )}
        </>
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
      <dt>{toLabel(nameOf(field))}</dt>
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
    <div class="scrollable" tabindex={0} role="region" aria-label="Line items">
      <table class="rows">
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={alignmentOf(column)}>
                {toLabel(column)}
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
                  <td data-label={toLabel(column)} class={alignmentOf(column)}>
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
