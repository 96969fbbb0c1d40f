// Permissions of the signed-in user: actions without permission are not offered. The API decides in any case.

import { ask } from "./api.js";

const ROLES = ["viewer", "operator", "admin"];
const EVERY_TENANT = "tenant:*";

// Whether the token has this role or one that may more.
export function may(role) {
  return ROLES.slice(ROLES.indexOf(role)).some((one) => ask.session.groups.includes(one));
}

export function mayEditPayloads() {
  return may("admin") || (may("operator") && ask.session.groups.includes("edit-payloads"));
}

export function maySeeEveryTenant() {
  return ask.session.groups.includes(EVERY_TENANT);
}

// The first view: clerks see their tenant's clusters, admins and operators of all tenants see the queues.
export const homeOf = ({ groups }) => (groups.includes("admin") || groups.includes(EVERY_TENANT) ? "overview" : "clusters");
