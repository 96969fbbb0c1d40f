// Header, navigation and footer for every page, and the sign-in page.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { QUIET_MINUTES, type Schemas, SLOW_SECONDS, useQuery } from "./api";
import { DropZone } from "./documents/upload";
import { PausedBanner } from "./overview/overview";
import { navigate, type Route } from "./router";
import type { Session } from "./session";
import { lastTenant, showsUnassigned, tenantOf, tenantsOf, UNASSIGNED } from "./tenant";
import { Notice, useTitle } from "./ui/components";
import { ZoneSwitch } from "./ui/format";
import { ShortcutsHelp } from "./ui/shortcuts";
import type { Views } from "./views";

const MAX_LISTED = 100; // tenants in the list; if there are more, users can type any slug

function TenantChoice({ route, session }: { route: Route; session: Session }) {
  const { every, slugs } = tenantsOf(session);
  const tenant = tenantOf(route, session) ?? "";
  const [text, setText] = useState(tenant);
  useEffect(() => setText(tenant), [tenant]);
  const { data } = useQuery<Schemas["TenantPage"]>(every ? ["admin/tenants", { limit: MAX_LISTED }] : null);
  const [view] = route.segments;
  const choose = (slug: string) =>
    slug &&
    slug !== tenant &&
    navigate(slug === UNASSIGNED && !showsUnassigned(view) ? "dead-letters" : view, { tenant: slug });
  const options: [slug: string, label: string][] =
    data?.tenants.map(({ slug, name }) => [slug, name === slug ? slug : `${name} (${slug})`]) ??
    slugs.map((slug) => [slug, slug]);
  if (every && (!data || data.next_cursor)) {
    return (
      <form
        class="tenant"
        onSubmit={(event) => {
          event.preventDefault();
          choose(text.trim());
        }}
      >
        <label for="tenant">Tenant</label>
        <input
          id="tenant"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onBlur={() => choose(text.trim())}
          autocomplete="off"
          spellcheck={false}
          list="tenants"
          size={14}
        />
        <datalist id="tenants">
          {options.map(([slug, label]) => (
            <option value={slug}>{label}</option>
          ))}
        </datalist>
      </form>
    );
  }
  if (every || slugs.length > 1) {
    const isListed = options.some(([slug]) => slug === tenant);
    return (
      <label class="tenant">
        Tenant
        <select value={tenant} onChange={(event) => choose(event.currentTarget.value)}>
          {!isListed && <option value={tenant}>{tenant === UNASSIGNED ? "Unassigned" : tenant || "Choose…"}</option>}
          {options.map(([slug, label]) => (
            <option value={slug}>{label}</option>
          ))}
        </select>
      </label>
    );
  }
  return tenant ? (
    <span class="tenant">
      Tenant <b>{tenant}</b>
    </span>
  ) : null;
}

// Navigation links. `last`: the last displayed tenant, for views without unassigned objects.
function Links({
  route,
  tenant,
  last,
  views,
}: {
  route: Route;
  tenant: string | null;
  last: string | null;
  views: Views;
}) {
  const here = views[route.segments[0]]?.parent ?? route.segments[0];
  return Object.entries(views)
    .filter(([, { title }]) => title)
    .map(([word, { title }]) => (
      <a
        href={navigate.href(word, { tenant: showsUnassigned(word) ? tenant : last })}
        aria-current={here === word ? "page" : undefined}
      >
        {title}
      </a>
    ));
}

export function Shell({
  route,
  session,
  views,
  children,
}: {
  route: Route;
  session: Session;
  views: Views;
  children: ComponentChildren;
}) {
  const tenant = tenantOf(route, session);
  const last = tenant === UNASSIGNED ? lastTenant(session) : tenant;
  const content =
    tenant !== null || views[route.segments[0]]?.worksWithoutTenant ? (
      children
    ) : tenantsOf(session).every ? (
      <Notice isWholePage title="Choose a tenant">
        You can access all tenants. Choose one at the top of the page.
      </Notice>
    ) : (
      <Notice isWholePage title="You have no access yet">
        Your account is not assigned to a tenant. Ask an admin to add you to the group <code>tenant:</code> followed by
        your tenant’s slug. Then sign out and sign in again.
      </Notice>
    );
  return (
    <>
      <a class="skip-link" href="#content">
        Skip to main content
      </a>
      <header class="page-header">
        <a class="brand" href={navigate.href("", { tenant: last })}>
          <Logo /> Counterfoil
        </a>
        <nav aria-label="Main">
          <Links route={route} tenant={tenant} last={last} views={views} />
        </nav>
        <TenantChoice route={route} session={session} />
        <ZoneSwitch />
        <div class="user">
          <span title={session.groups.join(", ")}>{session.claims.email ?? session.claims.sub}</span>
          <button type="button" onClick={() => session.signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <PausedBanner tenant={last} />
      <main id="content" tabindex={-1}>
        {content}
      </main>
      <DropZone tenant={tenant === UNASSIGNED ? null : tenant} />
      <footer>
        <ShortcutsHelp />{" "}
        <a href={LICENSES} target="_blank" rel="noreferrer">
          Third-party licenses
        </a>
        <span class="muted">
          Updates every second, or every {SLOW_SECONDS} seconds after {QUIET_MINUTES} minutes without changes or input.
        </span>
      </footer>
    </>
  );
}

const LICENSES = document.querySelector<HTMLLinkElement>('link[rel="license"]')?.href;

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true" width="22" height="22">
      <rect width="32" height="32" rx="6" fill="currentColor" />
      <path class="paper" d="M7 8h18v16H7z" />
      <path class="cut" d="M16 8v16" />
    </svg>
  );
}

export function SignInPage({
  title,
  lead,
  session,
  failure = null,
}: {
  title: string;
  lead?: string;
  session: Session;
  failure?: Error | null;
}) {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState(failure);
  const button = useRef<HTMLButtonElement>(null);
  useTitle(title);
  useEffect(() => button.current?.focus(), []);
  const signIn = () => {
    setBusy(true);
    session.signIn().catch((error) => {
      setFailed(error);
      setBusy(false);
    });
  };
  return (
    <main class="sign-in" id="content">
      <p class="brand">
        <Logo /> Counterfoil
      </p>
      <h1>{title}</h1>
      {failed && (
        <p role="alert" class="failure">
          {failed.message}
        </p>
      )}
      {lead && <p>{lead}</p>}
      <button ref={button} class="primary" type="button" disabled={busy} onClick={signIn}>
        Sign in
      </button>
    </main>
  );
}
