// Permissions of the signed-in user: actions without permission are not offered. The API decides in any case.

import { currentSession } from "./current_session";

const ROLES = ["viewer", "operator", "admin"] as const;
const EVERY_TENANT = "tenant:*";

// Whether the token has this role or a higher one.
export function hasRole(role: (typeof ROLES)[number]) {
  return ROLES.slice(ROLES.indexOf(role)).some((one) => currentSession().groups.includes(one));
}

export function canEditPayloads() {
  return hasRole("admin") || (hasRole("operator") && currentSession().groups.includes("edit-payloads"));
}

export function canSeeAllTenants() {
  return currentSession().groups.includes(EVERY_TENANT);
}

// The first view: clerks see their tenant's clusters, admins and operators of all tenants see the queues.
export const homeOf = ({ groups }: { groups: string[] }) =>
  groups.includes("admin") || groups.includes(EVERY_TENANT) ? "overview" : "clusters";
