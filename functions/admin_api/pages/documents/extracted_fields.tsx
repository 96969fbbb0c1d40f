// Extracted fields of a document, with confidence and page.

import type { Schemas } from "../api";
import { formatNumber, formatPercent } from "../ui/format";
import { toLabel } from "./summary";

type Field = Schemas["DocumentField"];

const SHOWN_BELOW = 0.95; // confidence
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
const isStated = ({ value }: { value: unknown }) =>
  value !== null && value !== "" && !(Array.isArray(value) && !value.length);
const formatValue = (value: unknown) =>
  typeof value !== "object"
    ? String(value)
    : Array.isArray(value) && value.every((one) => typeof one !== "object")
      ? value.join(", ")
      : JSON.stringify(value);
const sortNames = (names: string[], order: string[]) => [
  ...order.filter((name) => names.includes(name)),
  ...names.filter((name) => !order.includes(name)),
];

// Extracted values: plain fields, then parties, then line items.
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
  if (!stated.length && !lines.length) {
    return (
      <section aria-labelledby="fields">
        <h2 id="fields">Extracted fields</h2>
        <p class="quiet">No fields were extracted, or the extraction is in progress.</p>
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
        const own = stated.filter(({ path }) => path.split(".").slice(0, -1).join(".") === group);
        const names = sortNames(own.map(nameOf), FIRST);
        return (
          <>
            {group && <h3>{toLabel(group)}</h3>}
            <dl class="read">
              {names
                .flatMap((name) => own.filter((one) => nameOf(one) === name).slice(0, 1))
                .map((field) => (
                  <FieldRow field={field} turn={turn} />
                ))}
            </dl>
          </>
        );
      })}
      {lines.length > 0 && (
        <>
          <h3>Line items</h3>
          <LineTable lines={lines} />
          {total > lines.length && (
            <p class="quiet">
              The first {formatNumber(lines.length)} of {formatNumber(total)} line items are shown.
            </p>
          )}
        </>
      )}
    </section>
  );
}

const nameOf = ({ path }: { path: string }) => path.slice(path.lastIndexOf(".") + 1);

function FieldRow({ field, turn }: { field: Field; turn: ((page: number) => void) | null }) {
  const { value, confidence, page } = field;
  return (
    <div>
      <dt>{toLabel(nameOf(field))}</dt>
      <dd>
        {formatValue(value)}
        {confidence !== null && confidence < SHOWN_BELOW && (
          <>
            {" "}
            <span class="unsure">{formatPercent(confidence)} confidence</span>
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

function LineTable({ lines }: { lines: Field[][] }) {
  const rows = lines.map((line) => new Map(line.filter(isStated).map((field) => [nameOf(field), field.value])));
  const columns = sortNames([...new Set(rows.flatMap((row) => [...row.keys()]))], COLUMNS);
  return (
    <div class="scrolled" tabindex={0} role="region" aria-label="Line items">
      <table class="rows">
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col">{toLabel(column)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {columns.map((column) => (
                <td data-label={toLabel(column)}>{row.has(column) ? formatValue(row.get(column)) : ""}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
