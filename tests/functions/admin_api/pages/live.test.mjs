// How often the console asks. Run by test_page_live.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./browser.mjs";

const { LIVE_SECONDS, pace, QUIET_MINUTES, SLOW_SECONDS } = await import(process.env.API_MODULE);

const NOW = 1_800_000_000_000;
const asked = (changes) => pace(LIVE_SECONDS, { active: NOW, took: 0, failures: 0, now: NOW, ...changes });

test("what changed just after a question is shown within a second, however long the answer took before", () => {
  for (const took of [0, 0.02, 0.1, 0.4]) {
    assert.ok(took + asked({ took }) <= LIVE_SECONDS + 1e-9);
  }
  assert.ok(LIVE_SECONDS + 0.1 <= 1);
});

test("a slow answer is not asked for again at once", () => {
  assert.ok(asked({ took: 30 }) > 0.2);
});

test("a page that is only looked at stays live for ten minutes after whatever moved last", () => {
  assert.equal(QUIET_MINUTES, 10);
  assert.equal(asked({ active: NOW - 599_000 }), LIVE_SECONDS);
  assert.equal(asked({ active: NOW - 600_000 }), SLOW_SECONDS);
});

test("failures are met with patience, up to a minute, whoever is there", () => {
  const waits = [1, 2, 3, 10].map((failures) => asked({ failures }));
  assert.deepEqual(waits, [1.8, 3.6, 7.2, 60]);
});
