// Permissions of the signed-in user. The console hides actions that the user may not perform. The API enforces
// permissions.

import { currentSession } from "./current_session";

const ROLES = ["viewer", "operator", "admin"] as const;
const ALL_TENANTS = "tenant:*";

// Returns whether the token has this role or a higher one.
export function hasRole(role: (typeof ROLES)[number]) {
  return ROLES.slice(ROLES.indexOf(role)).some((one) => currentSession().groups.includes(one));
}

export function canEditPayloads() {
  return hasRole("admin") || (hasRole("operator") && currentSession().groups.includes("edit-payloads"));
}

export function canSeeAllTenants() {
  return currentSession().groups.includes(ALL_TENANTS);
}

// Start page: the overview for admins and for users with access to all tenants, the clusters for other users.
export const homeView = ({ groups }: { groups: string[] }) =>
  groups.includes("admin") || groups.includes(ALL_TENANTS) ? "overview" : "clusters";
