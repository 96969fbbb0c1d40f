// Whose things are shown.

const KEPT = "counterfoil.tenant";

export const NOBODY = "-"; // instead of a tenant, for people with all tenants: messages that cannot be parsed
const OF_NOBODY = ["dead-letters", "audit"]; // views with unassigned objects

export function showsNobodys(view) {
  return OF_NOBODY.includes(view);
}

// The displayed tenant: that of the address, the only one of the token, or the last one. Unassigned is never the last
// one, and is replaced in views without unassigned objects.
export function tenantOf(place, session) {
  const named = place.query.get("tenant");
  if (named === NOBODY && showsNobodys(place.words[0])) {
    return NOBODY;
  }
  if (named && named !== NOBODY) {
    sessionStorage.setItem(KEPT, named);
    return named;
  }
  return lastOf(session);
}

// The last displayed tenant, or null.
export function lastOf(session) {
  const last = sessionStorage.getItem(KEPT);
  const { every, slugs } = tenantsOf(session);
  return every || slugs.includes(last) ? last : (slugs[0] ?? null);
}

// The tenants of the token.
export function tenantsOf(session) {
  const named = session.groups.filter((group) => group.startsWith("tenant:")).map((group) => group.slice(7));
  return { every: named.includes("*"), slugs: named.filter((slug) => slug !== "*").sort() };
}
