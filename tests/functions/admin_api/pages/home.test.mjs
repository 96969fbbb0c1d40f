// The console's start page. Run by test_page_home.py.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { browser, CONSOLE } from "./browser.mjs";

const { homeView } = await import(process.env.ROLES_MODULE);

beforeEach(() => browser.begin(CONSOLE, () => assert.fail("unexpected request")));

for (const groups of [
  ["viewer", "tenant:acme"],
  ["operator", "tenant:acme", "tenant:beta"],
]) {
  test(`${groups} start with the clusters`, () => assert.equal(homeView({ groups }), "clusters"));
}

for (const groups of [
  ["admin", "tenant:acme"],
  ["viewer", "tenant:*"],
]) {
  test(`${groups} start with the overview`, () => assert.equal(homeView({ groups }), "overview"));
}
