// View selected by a URL path. Run by test_page_router.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { browser, CONSOLE } from "./browser.mjs";

const { currentRoute } = await import(process.env.ROUTER_MODULE);

const segmentsOf = (path) => {
  browser.begin(`${CONSOLE}${path}`, () => assert.fail("unexpected request"));
  return currentRoute().segments;
};

for (const [path, segments] of [
  ["", [""]],
  ["/", [""]],
  ["/clusters", ["clusters"]],
  ["/clusters/", ["clusters"]],
  ["/clusters/4f0d/", ["clusters", "4f0d"]],
  ["/clusters//", ["clusters", ""]],
]) {
  test(`${path || "no path"} selects ${segments.join(", ") || "the first view"}`, () =>
    assert.deepEqual(segmentsOf(path), segments));
}
