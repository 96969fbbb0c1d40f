// Selection of the displayed tenant.

import type { Route } from "./router";

type User = { groups: string[] };
const STORAGE_KEY = "counterfoil.tenant";

export const UNASSIGNED = "-"; // in place of a tenant, for dead letters whose message cannot be parsed
const WITH_UNASSIGNED = ["dead-letters", "audit"]; // views with unassigned objects

export function showsUnassigned(view: string) {
  return WITH_UNASSIGNED.includes(view);
}

// Returns the displayed tenant: the tenant in the URL, else the last displayed tenant, else the first tenant in the
// token. UNASSIGNED is never stored as the last tenant. Views without unassigned objects show the last tenant instead.
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

// Returns the last displayed tenant if the token permits it, else the first tenant in the token, or null.
export function lastTenant(session: User): string | null {
  const last = sessionStorage.getItem(STORAGE_KEY);
  const { every, slugs } = tenantsOf(session);
  return every || (last !== null && slugs.includes(last)) ? last : (slugs[0] ?? null);
}

// Returns the tenants in the token: their slugs, and whether it permits all tenants (`every`).
export function tenantsOf(session: User) {
  const named = session.groups.filter((group) => group.startsWith("tenant:")).map((group) => group.slice(7));
  return { every: named.includes("*"), slugs: named.filter((slug) => slug !== "*").sort() };
}
