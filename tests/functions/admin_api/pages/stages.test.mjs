// A document's stages. Run by test_page_stages.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./browser.mjs";

const { isDone } = await import(process.env.STAGES_MODULE);

const STAGES = ["source", "ingestion", "matching", "output"];
const stages = (...states) => STAGES.map((stage, position) => ({ stage, state: states[position], reason: null }));

for (const output of ["none", "pending", "in-progress", "failed", "succeeded"]) {
  test(`matched document is done while its delivery is ${output}`, () =>
    assert.ok(isDone(stages("succeeded", "succeeded", "succeeded", output))));
}

for (const matching of ["pending", "in-progress", "failed"]) {
  test(`document is not done while matching is ${matching}`, () =>
    assert.ok(!isDone(stages("succeeded", "succeeded", matching, "none"))));
}
