// Names of documents, and a comparison of two documents.

import type { Schemas } from "../api";
import { navigate } from "../router";
import { formatDay, formatMoney, shortId, toLabel } from "../ui/format";

// Fields of a document that lists and reviews show.
export type DocumentInfo = Partial<Omit<Schemas["ReviewDocument"], "id">> & { id: string };
export type NamedDocument = Pick<DocumentInfo, "id" | "type" | "number">;
// A document of the API, with date and total as text.
export type WithText<Doc> = Omit<Doc, "date" | "total" | "file_name"> & {
  date: string | null;
  file: string;
  total: string | null;
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

// Converts date and total of a document to text.
export function toSummary<Doc extends { date: string | null; total: Schemas["Total"] | null; file_name: string }>({
  date,
  total,
  file_name: file,
  ...others
}: Doc): WithText<Doc> {
  return { ...others, date: formatDay(date), file, total: total && formatMoney(total.amount, total.currency) };
}

// Title of a document. Of a deleted document, only the id is known.
export function documentTitle(doc: NamedDocument) {
  if (!doc.type) {
    return `A deleted document (${shortId(doc.id)})`;
  }
  return `${toLabel(doc.type)} ${doc.number ?? shortId(doc.id)}`;
}

export function DocumentLink({ doc, tenant }: { doc: NamedDocument; tenant: string | null }) {
  if (!doc.type) {
    return <span class="muted">{documentTitle(doc)}</span>;
  }
  return <a href={navigate.href(`documents/${doc.id}`, { tenant })}>{documentTitle(doc)}</a>;
}

// The supplier of a document, and the facts that could not be extracted.
export function Supplier({ doc }: { doc: Pick<DocumentInfo, "seller" | "missing"> }) {
  const missing = doc.missing ?? [];
  return (
    <>
      {doc.seller}
      {missing.length > 0 && <span class="uncertain file-name">Not read: {missing.join(", ")}</span>}
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

// Fields of a document. Next to another one, equal values are marked.
export function DocumentFacts({ doc, comparedWith = null }: { doc: DocumentInfo; comparedWith?: DocumentInfo | null }) {
  return (
    <dl class="document-facts">
      {SIDE_BY_SIDE.map(([name, key]) => {
        const value = key === "date" ? formatDay(doc.date ?? null) : doc[key];
        const isEqual = comparedWith && value && key !== "file" && comparedWith[key] === doc[key];
        return (
          <div>
            <dt>{name}</dt>
            <dd>
              {value ?? <span class="muted">not stated</span>}
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
