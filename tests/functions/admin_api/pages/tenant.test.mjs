// Whose things the console shows. Run by test_page_tenant.py.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { browser, CONSOLE } from "./browser.mjs";

const { lastOf, NOBODY, tenantOf } = await import(process.env.TENANT_MODULE);

const EVERY = { groups: ["admin", "tenant:*"] };
const TWO = { groups: ["viewer", "tenant:beta", "tenant:acme"] };
const at = (view, tenant) => ({ words: [view], query: new URLSearchParams(tenant ? { tenant } : {}) });

beforeEach(() => browser.begin(CONSOLE, () => assert.fail("nothing is asked")));

test("who sees every tenant has none until one is named, and it is kept", () => {
  assert.equal(tenantOf(at("documents"), EVERY), null);
  assert.equal(tenantOf(at("documents", "acme"), EVERY), "acme");
  assert.equal(tenantOf(at("tasks"), EVERY), "acme");
});

test("who sees some of them begins with the first, and keeps the last", () => {
  assert.equal(tenantOf(at("documents"), TWO), "acme");
  tenantOf(at("documents", "beta"), TWO);
  assert.equal(tenantOf(at("tasks"), TWO), "beta");
});

for (const view of ["dead-letters", "audit"]) {
  test(`${view} of nobody are shown, and not kept for other views`, () => {
    tenantOf(at("documents", "acme"), EVERY);
    assert.equal(tenantOf(at(view, NOBODY), EVERY), NOBODY);
    for (const other of ["documents", "tasks", "reviews", "offers", "dead-letters"]) {
      assert.equal(tenantOf(at(other), EVERY), "acme");
    }
    assert.equal(lastOf(EVERY), "acme");
  });
}

for (const view of ["overview", "documents", "tasks", "reviews", "offers", "operations", "purges"]) {
  test(`${view} have nothing of nobody's: the last tenant's are shown`, () => {
    assert.equal(tenantOf(at(view, NOBODY), EVERY), null);
    tenantOf(at(view, "acme"), EVERY);
    assert.equal(tenantOf(at(view, NOBODY), EVERY), "acme");
  });
}
