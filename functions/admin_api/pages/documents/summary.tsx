// Titles of documents, and a comparison of two documents.

import type { Schemas } from "../api";
import { navigate } from "../router";
import { formatDay, formatMoney, formatTotal, shortId, toLabel } from "../ui/format";

// Document fields shown in lists and reviews.
export type DocumentInfo = Partial<Omit<Schemas["ReviewDocument"], "id">> & { id: string };
export type NamedDocument = Pick<DocumentInfo, "id" | "type" | "number">;
// A document from the API, with its date and total as text.
export type WithText<Doc> = Omit<Doc, "date" | "total" | "file_name"> & {
  date: string | null;
  file: string;
  total: string | null;
  isNet: boolean; // whether the total is net, because no gross total is stated
};

export const KINDS = [
  "invoice",
  "purchase_order",
  "order_confirmation",
  "delivery_note",
  "goods_receipt",
  "credit_note",
  "contract",
];

// Converts a document's date and total to text.
export function toSummary<Doc extends { date: string | null; total: Schemas["Total"] | null; file_name: string }>({
  date,
  total,
  file_name: file,
  ...others
}: Doc): WithText<Doc> {
  const text = total && formatMoney(total.amount, total.currency);
  return { ...others, date: formatDay(date), file, total: text, isNet: total?.is_net ?? false };
}

// Returns a document's title. Only the id of a deleted document is known.
export function documentTitle(doc: NamedDocument) {
  if (!doc.type) {
    return `A deleted document (${shortId(doc.id)})`;
  }
  return `${toLabel(doc.type)} ${doc.number ?? shortId(doc.id)}`;
}

// Returns a document's title within a sentence, for example "purchase order 4500002784". `details` are appended.
export function documentName(doc: NamedDocument, ...details: (string | null | undefined)[]) {
  const title = documentTitle(doc);
  const stated = details.filter(Boolean).join(", ");
  return `${title[0].toLowerCase()}${title.slice(1)}${stated && ` (${stated})`}`;
}

export function DocumentLink({ doc, tenant }: { doc: NamedDocument; tenant: string | null }) {
  if (!doc.type) {
    return <span class="muted">{documentTitle(doc)}</span>;
  }
  return <a href={navigate.href(`documents/${doc.id}`, { tenant })}>{documentTitle(doc)}</a>;
}

// A document's supplier, and the fields that could not be extracted.
export function Supplier({ doc }: { doc: Pick<DocumentInfo, "seller" | "missing"> }) {
  const missing = doc.missing ?? [];
  return (
    <>
      {doc.seller}
      {missing.length > 0 && <span class="uncertain file-name">Not extracted: {missing.join(", ")}</span>}
    </>
  );
}

const SIDE_BY_SIDE: [string, "number" | "date" | "seller" | "buyer" | "total" | "file"][] = [
  ["Number", "number"],
  ["Date", "date"],
  ["Supplier", "seller"],
  ["Buyer", "buyer"],
  ["Total", "total"],
  ["File", "file"],
];

// Shows a document's fields. Values equal to those in `comparedWith` are marked.
export function DocumentFacts({ doc, comparedWith = null }: { doc: DocumentInfo; comparedWith?: DocumentInfo | null }) {
  return (
    <dl class="document-facts">
      {SIDE_BY_SIDE.map(([name, key]) => {
        const value = key === "date" ? formatDay(doc.date) : key === "total" ? formatTotal(doc.total) : doc[key];
        const isEqual = comparedWith && value && key !== "file" && comparedWith[key] === doc[key];
        return (
          <div>
            <dt>{name}</dt>
            <dd>
              {value ?? <span class="muted">Not stated</span>}
              {isEqual && (
                <>
                  {" "}
                  <span class="same-badge">same</span>
                </>
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}
