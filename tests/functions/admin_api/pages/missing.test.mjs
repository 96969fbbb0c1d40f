// Missing facts in list rows. Run by test_page_missing.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { browser, CONSOLE } from "./browser.mjs";

browser.begin(`${CONSOLE}/documents`);
const { Supplier } = await import(process.env.SUMMARY_MODULE);
const { Row: DocumentRow } = await import(process.env.DOCUMENTS_MODULE);
const { Row: ReviewRow } = await import(process.env.REVIEWS_MODULE);

const Fragment = Supplier({ doc: { seller: "" } }).type;

// Returns the text of a rendered element. Skips components other than Supplier.
function textOf(node) {
  if (Array.isArray(node)) {
    return node.map(textOf).join("");
  }
  if (typeof node !== "object" || node === null) {
    return node ? String(node) : "";
  }
  if (typeof node.type === "function" && node.type !== Fragment) {
    return node.type.name === "Supplier" ? textOf(node.type(node.props)) : "";
  }
  return textOf(node.props.children);
}

const doc = {
  id: "0190-1",
  type: "invoice",
  number: "R-81",
  file: "a.pdf",
  seller: null,
  missing: ["supplier", "total"],
};

test("missing facts follow the supplier", () =>
  assert.equal(textOf(Supplier({ doc: { ...doc, seller: "Tarnow" } })), "TarnowNot extracted: supplier, total"));

for (const whole of [{ missing: [] }, { missing: undefined }]) {
  test(`nothing follows the supplier if missing is ${whole.missing ? "empty" : "undefined"}`, () =>
    assert.equal(textOf(Supplier({ doc: { ...doc, seller: "Tarnow", ...whole } })), "Tarnow"));
}

test("document list names missing facts", () => {
  const listed = { ...doc, stages: [], cluster_order_numbers: [], received_at: "2026-01-05T12:00:00Z" };
  assert.match(textOf(DocumentRow({ doc: listed, tenant: "acme" })), /Not extracted: supplier, total/);
});

test("review list names missing facts", () => {
  const review = {
    id: doc.id,
    document: doc,
    ambiguous_matches: [],
    probability: 0.5,
    opened_at: "2026-01-05T12:00:00Z",
  };
  assert.match(textOf(ReviewRow({ review, filter: { state: "open" } })), /Not extracted: supplier, total/);
});
