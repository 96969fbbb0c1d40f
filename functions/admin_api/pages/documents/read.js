// Extracted fields of a document, with confidence and page.

import { html } from "htm/preact";
import { label } from "./papers.js";
import { number } from "../times.js";

const SURE = 0.95; // minimum confidence that is not displayed
const COLUMNS = ["position", "article_number", "buyer_article_number", "description", "quantity", "unit", "unit_price", "net_amount"];
const FIRST = ["name", "vat_id", "tax_number", "street", "postal_code", "city", "country"];
const isStated = ({ value }) => value !== null && value !== "" && !(Array.isArray(value) && !value.length);
const written = (value) => (typeof value !== "object" ? String(value) : Array.isArray(value) && value.every((one) => typeof one !== "object") ? value.join(", ") : JSON.stringify(value));
const inOrder = (names, order) => [...order.filter((name) => names.includes(name)), ...names.filter((name) => !order.includes(name))];

// Extracted values: plain fields, then parties, then line items.
export function Fields({ fields, lines, total, turn }) {
  const told = fields.filter(isStated);
  if (!told.length && !lines.length) {
    return html`<section aria-labelledby="fields"><h2 id="fields">What was read</h2>
      <p class="quiet">No fields were extracted, or the extraction is in progress.</p></section>`;
  }
  const groups = [...new Set(told.map(({ path }) => path.split(".").slice(0, -1).join(".")))].sort((one, other) => Boolean(one) - Boolean(other));
  return html`<section aria-labelledby="fields">
    <h2 id="fields">What was read</h2>
    ${groups.map((group) => {
      const own = told.filter(({ path }) => path.split(".").slice(0, -1).join(".") === group);
      const names = inOrder(own.map(nameOf), FIRST);
      return html`${group && html`<h3>${label(group)}</h3>`}
        <dl class="read">${names.map((name) => html`<${Read} field=${own.find((one) => nameOf(one) === name)} turn=${turn} />`)}</dl>`;
    })}
    ${lines.length > 0 && html`<h3>Lines</h3><${LineTable} lines=${lines} />
      ${total > lines.length && html`<p class="quiet">The first ${number(lines.length)} of ${number(total)} lines are shown.</p>`}`}
  </section>`;
}

const nameOf = ({ path }) => path.split(".").at(-1);

function Read({ field, turn }) {
  const { value, confidence, page } = field;
  return html`<div><dt>${label(nameOf(field))}</dt><dd>${written(value)}
    ${confidence !== null && confidence < SURE && html` <span class="unsure">${Math.round(confidence * 100)} % sure</span>`}
    ${page !== null && turn && html` <button type="button" class="link" onClick=${() => turn(page)} aria-label=${`Show page ${page}, where this stands`}>page ${page}</button>`}
  </dd></div>`;
}

function LineTable({ lines }) {
  const rows = lines.map((line) => new Map(line.filter(isStated).map((field) => [nameOf(field), field.value])));
  const columns = inOrder([...new Set(rows.flatMap((row) => [...row.keys()]))], COLUMNS);
  return html`<div class="scrolled" tabindex="0" role="region" aria-label="Lines">
    <table class="rows">
      <thead><tr>${columns.map((column) => html`<th scope="col">${label(column)}</th>`)}</tr></thead>
      <tbody>
        ${rows.map((row) => html`<tr>${columns.map((column) => html`<td data-label=${label(column)}>${row.has(column) ? written(row.get(column)) : ""}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`;
}
