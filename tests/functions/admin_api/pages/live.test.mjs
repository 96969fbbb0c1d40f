// Polling intervals of the console. Run by test_page_live.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./browser.mjs";

const { POLL_FAST_SECONDS, pollInterval, QUIET_MINUTES, SLOW_SECONDS } = await import(process.env.API_MODULE);

const NOW = 1_800_000_000_000;
const delay = (changes) => pollInterval(POLL_FAST_SECONDS, { active: NOW, took: 0, failures: 0, now: NOW, ...changes });

test("requests start at most 0.9 seconds apart, including the response time", () => {
  for (const took of [0, 0.02, 0.1, 0.4]) {
    assert.ok(took + delay({ took }) <= POLL_FAST_SECONDS + 1e-9);
  }
  assert.ok(POLL_FAST_SECONDS + 0.1 <= 1);
});

test("a slow request is not repeated immediately", () => {
  assert.ok(delay({ took: 30 }) > 0.2);
});

test("an idle page stays live for ten minutes after the last activity", () => {
  assert.equal(QUIET_MINUTES, 10);
  assert.equal(delay({ active: NOW - 599_000 }), POLL_FAST_SECONDS);
  assert.equal(delay({ active: NOW - 600_000 }), SLOW_SECONDS);
});

test("failures back off up to a minute", () => {
  const waits = [1, 2, 3, 10].map((failures) => delay({ failures }));
  assert.deepEqual(waits, [1.8, 3.6, 7.2, 60]);
});
