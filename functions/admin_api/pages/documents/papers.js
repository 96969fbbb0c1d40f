// Names of documents, and comparison of two documents.

import { html } from "htm/preact";
import { go } from "../place.js";

export const KINDS = ["invoice", "purchase_order", "order_confirmation", "delivery_note", "goods_receipt", "credit_note", "contract"];
const SHOWN = 6; // characters of an id, from its end: the beginning of ids that are made at one time is the same

const CAPITALS = /\b(iban|bic|vat|po|id)\b/gi;

// A name of the API in the words of people: purchase_order, vat_id.
export const label = (name) =>
  name ? `${name[0].toUpperCase()}${name.slice(1)}`.replaceAll("_", " ").replace(CAPITALS, (word) => word.toUpperCase()) : "Document";

export const short = (id) => id.slice(-SHOWN);

// A document as the API's lists have it, in the words that are shown: its total with the currency.
export function paperOf({ total, file_name: file, ...others }) {
  return { ...others, file, total: total && [total.amount, total.currency].filter(Boolean).join(" ") };
}

// Name of a document; only the id of a deleted one.
export function titleOf(paper) {
  if (!paper.type) {
    return `A document that is gone (${short(paper.id)})`;
  }
  return `${label(paper.type)} ${paper.number ?? short(paper.id)}`;
}

export function PaperLink({ paper, tenant }) {
  if (!paper.type) {
    return html`<span class="quiet">${titleOf(paper)}</span>`;
  }
  return html`<a href=${go.href(`documents/${paper.id}`, { tenant })}>${titleOf(paper)}</a>`;
}

// The seller of a document, and its missing facts.
export function Seller({ paper }) {
  const missing = paper.missing ?? [];
  return html`${paper.seller}${missing.length > 0 && html`<span class="unsure file-name">Not read: ${missing.join(", ")}</span>`}`;
}

const SIDE_BY_SIDE = [
  ["Number", "number"],
  ["Date", "date"],
  ["Seller", "seller"],
  ["Buyer", "buyer"],
  ["Total", "total"],
  ["File", "file"],
];

// Fields of a document. Next to another one, equal values are marked.
export function PaperFacts({ paper, beside = null }) {
  return html`<dl class="paper-facts">
    ${SIDE_BY_SIDE.map(([name, key]) => {
      const said = paper[key];
      const alike = beside && said && key !== "file" && beside[key] === said;
      return html`<div class=${alike ? "alike" : ""}><dt>${name}</dt>
        <dd>${said ?? html`<span class="quiet">not stated</span>`}${alike && html` <span class="mark-alike">same</span>`}</dd></div>`;
    })}
  </dl>`;
}
