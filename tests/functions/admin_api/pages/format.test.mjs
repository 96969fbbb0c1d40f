// Numbers, durations and labels as text. Run by test_page_format.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./browser.mjs";

const { formatCount, formatDuration, formatRate, formatTotal, toLabel } = await import(process.env.FORMAT_MODULE);
const { plainOptions } = await import(process.env.FILTERS_MODULE);

for (const [seconds, text] of [
  [0, "under 0.1 s"],
  [0.04, "under 0.1 s"],
  [0.05, "0.1 s"],
  [9.96, "10 s"],
  [61, "1 min 1 s"],
]) {
  test(`${seconds} seconds are shown as ${text}`, () => assert.equal(formatDuration(seconds), text));
}

for (const [count, text] of [
  [1, "under 0.1 per minute"],
  [6, "0.1 per minute"],
  [599, "10.0 per minute"],
  [660, "11 per minute"],
]) {
  test(`${count} per hour are shown as ${text}`, () => assert.equal(formatRate(count, 60), text));
}

test("API names become labels", () => {
  assert.equal(toLabel("in-progress"), "In progress");
  assert.equal(toLabel("vat_id"), "VAT ID");
  assert.equal(toLabel("http_request"), "HTTP request");
  assert.deepEqual(plainOptions(["within-tolerance"]), [["within-tolerance", "Within tolerance"]]);
});

for (const [count, text] of [
  [0, "0 dead letters"],
  [1, "1 dead letter"],
  [1200, "1,200 dead letters"],
]) {
  test(`${count} dead letters are counted as ${text}`, () => assert.equal(formatCount(count, "dead letter"), text));
}

test("a stated total has the format of all amounts", () => {
  assert.equal(formatTotal("2159.47 EUR"), "2,159.47 EUR");
  assert.equal(formatTotal("-12.5"), "-12.50");
  assert.equal(formatTotal("2,159.47 EUR"), "2,159.47 EUR");
  assert.equal(formatTotal("on request"), "on request");
  assert.equal(formatTotal(null), null);
});
