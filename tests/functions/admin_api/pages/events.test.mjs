// Titles of the events in a document's history. Run by test_page_events.py.

import assert from "node:assert/strict";
import { test } from "node:test";

const { eventTitle, matchedBy, showsActor } = await import(process.env.EVENTS_MODULE);

for (const [kind, outcome, actor, title] of [
  ["arrival", "received", "acquisition", "File received"],
  ["work", "queued", "ingestion", "Extraction queued"],
  ["attempt", "retry", "document_output", "Result delivery, attempt 2: failed, will be retried"],
  ["running", "in-progress", "matching", "Matching in progress"],
  ["dead_letter", "retried", "ann", "Dead letter retried"],
  ["link", "linked", "llm", "Matched with"],
  ["review", "resolved", "matching", "Review no longer needed"],
  ["decision", "disputed", "ann", "Difference disputed"],
  ["result", "within-tolerance", "diagnostics", "Comparison: within tolerance"],
  ["result", "delivered", "document_output", "Result delivered"],
]) {
  test(`${kind} ${outcome} is shown as ${title}`, () =>
    assert.equal(eventTitle({ kind, outcome, actor, attempt: 2 }), title));
}

test("only people and models are named", () => {
  assert.equal(matchedBy({ kind: "link", actor: "llm" }), "the language model");
  assert.equal(matchedBy({ kind: "work", actor: "ingestion" }), null);
  assert.ok(showsActor({ kind: "decision" }));
  assert.ok(!showsActor({ kind: "work" }));
});
