// The displayed tenant.

import type { Route } from "./router";

type User = { groups: string[] };
const STORAGE_KEY = "counterfoil.tenant";

export const UNASSIGNED = "-"; // instead of a tenant: dead letters of messages that cannot be parsed
const WITH_UNASSIGNED = ["dead-letters", "audit"]; // views with unassigned objects

export function showsUnassigned(view: string) {
  return WITH_UNASSIGNED.includes(view);
}

// The displayed tenant: the one in the address, else the last one, else the first one in the token. UNASSIGNED is never
// stored as the last tenant. Views without unassigned objects show the last tenant instead.
export function tenantOf(route: Route, session: User): string | null {
  const named = route.query.get("tenant");
  if (named === UNASSIGNED && showsUnassigned(route.segments[0])) {
    return UNASSIGNED;
  }
  if (named && named !== UNASSIGNED) {
    sessionStorage.setItem(STORAGE_KEY, named);
    return named;
  }
  return lastTenant(session);
}

// The last displayed tenant, or null.
export function lastTenant(session: User): string | null {
  const last = sessionStorage.getItem(STORAGE_KEY);
  const { every, slugs } = tenantsOf(session);
  return every || (last !== null && slugs.includes(last)) ? last : (slugs[0] ?? null);
}

// The tenants of the token.
export function tenantsOf(session: User) {
  const named = session.groups.filter((group) => group.startsWith("tenant:")).map((group) => group.slice(7));
  return { every: named.includes("*"), slugs: named.filter((slug) => slug !== "*").sort() };
}
