// The tenant shown in the console. Run by test_page_tenant.py.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { browser, CONSOLE } from "./browser.mjs";

const { lastTenant, UNASSIGNED, tenantOf } = await import(process.env.TENANT_MODULE);

const EVERY = { groups: ["admin", "tenant:*"] };
const TWO = { groups: ["viewer", "tenant:beta", "tenant:acme"] };
const at = (view, tenant) => ({ segments: [view], query: new URLSearchParams(tenant ? { tenant } : {}) });

beforeEach(() => browser.begin(CONSOLE, () => assert.fail("unexpected request")));

test("users with access to all tenants start without a tenant, and their choice is remembered", () => {
  assert.equal(tenantOf(at("documents"), EVERY), null);
  assert.equal(tenantOf(at("documents", "acme"), EVERY), "acme");
  assert.equal(tenantOf(at("tasks"), EVERY), "acme");
});

test("users with access to several tenants start with the first, and their choice is remembered", () => {
  assert.equal(tenantOf(at("documents"), TWO), "acme");
  tenantOf(at("documents", "beta"), TWO);
  assert.equal(tenantOf(at("tasks"), TWO), "beta");
});

for (const view of ["dead-letters", "audit"]) {
  test(`unassigned ${view} are shown but not remembered for other views`, () => {
    tenantOf(at("documents", "acme"), EVERY);
    assert.equal(tenantOf(at(view, UNASSIGNED), EVERY), UNASSIGNED);
    for (const other of ["documents", "tasks", "reviews", "offers", "dead-letters"]) {
      assert.equal(tenantOf(at(other), EVERY), "acme");
    }
    assert.equal(lastTenant(EVERY), "acme");
  });
}

for (const view of ["overview", "documents", "tasks", "reviews", "offers", "operations", "purges"]) {
  test(`${view} cannot be unassigned, so the last tenant is shown`, () => {
    assert.equal(tenantOf(at(view, UNASSIGNED), EVERY), null);
    tenantOf(at(view, "acme"), EVERY);
    assert.equal(tenantOf(at(view, UNASSIGNED), EVERY), "acme");
  });
}
