// Whose things are shown.

const KEPT = "counterfoil.tenant";

export const NOBODY = "-"; // in the place of a tenant, for who sees every one: messages that could not be read
const OF_NOBODY = ["dead-letters", "audit"]; // the views that have something of nobody's

export function showsNobodys(view) {
  return OF_NOBODY.includes(view);
}

// The tenant whose things are shown: that of the address, the only one of the token, or the last one. Nobody is no last
// one, and is somebody where a view has nothing of nobody's.
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

// The tenant that was shown last; null: there is none yet.
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
