// What every page has: head, navigation, the tenant; and the page in front of it, where people sign in.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "htm/preact";
import { QUIET_MINUTES, SLOW_SECONDS } from "./api.js";
import { go } from "./place.js";
import { DropZone } from "./documents/drop.js";
import { PausedBanner } from "./overview/overview.js";
import { Notice, useTitle } from "./parts.js";
import { KeysHelp } from "./keys.js";
import { lastOf, NOBODY, showsNobodys, tenantOf, tenantsOf } from "./tenant.js";
import { ZoneSwitch } from "./times.js";

function TenantChoice({ place, session }) {
  const { every, slugs } = tenantsOf(session);
  const tenant = tenantOf(place, session) ?? "";
  const [text, setText] = useState(tenant);
  useEffect(() => setText(tenant), [tenant]);
  const [view] = place.words;
  const choose = (slug) =>
    slug && slug !== tenant && go(slug === NOBODY && !showsNobodys(view) ? "dead-letters" : view, { tenant: slug });
  if (every) {
    return html`<form class="tenant" onSubmit=${(event) => (event.preventDefault(), choose(text.trim()))}>
      <label for="tenant">Tenant</label>
      <input id="tenant" value=${text} onInput=${(event) => setText(event.target.value)}
        onBlur=${() => choose(text.trim())} autocomplete="off" spellcheck=${false} placeholder="its slug" size="14" />
    </form>`;
  }
  if (slugs.length > 1) {
    return html`<label class="tenant">Tenant
      <select value=${tenant} onChange=${(event) => choose(event.target.value)}>
        ${slugs.map((slug) => html`<option value=${slug}>${slug}</option>`)}
      </select>
    </label>`;
  }
  return tenant ? html`<span class="tenant">Tenant <b>${tenant}</b></span>` : null;
}

// `last`: for views without unassigned objects.
function Links({ place, tenant, last, views }) {
  const here = views[place.words[0]]?.under ?? place.words[0];
  return Object.entries(views)
    .filter(([, { title }]) => title)
    .map(
      ([word, { title }]) =>
        html`<a href=${go.href(word, { tenant: showsNobodys(word) ? tenant : last })}
          aria-current=${here === word ? "page" : undefined}>${title}</a>`,
    );
}

export function Shell({ place, session, views, children }) {
  const tenant = tenantOf(place, session);
  const last = tenant === NOBODY ? lastOf(session) : tenant;
  const content =
    tenant !== null || views[place.words[0]]?.bare
      ? children
      : tenantsOf(session).every
        ? html`<${Notice} alone title="Choose a tenant">Your role covers all tenants. Enter the slug of one above.<//>`
        : html`<${Notice} alone title="You have no access yet"
            >Your account belongs to no tenant. Ask an admin to add you to the group <code>tenant:</code> and the slug,
            then sign out and in again.<//
          >`;
  return html`
    <a class="skip" href="#content">Skip to the content</a>
    <header class="top">
      <a class="brand" href=${go.href("", { tenant: last })}><${Mark} /> Counterfoil</a>
      <nav aria-label="Main"><${Links} place=${place} tenant=${tenant} last=${last} views=${views} /></nav>
      <${TenantChoice} place=${place} session=${session} />
      <${ZoneSwitch} />
      <div class="user">
        <span title=${session.groups.join(", ")}>${session.claims.email ?? session.claims.sub}</span>
        <button type="button" onClick=${() => session.signOut()}>Sign out</button>
      </div>
    </header>
    <${PausedBanner} tenant=${last} />
    <main id="content" tabindex="-1">${content}</main>
    <${DropZone} tenant=${tenant === NOBODY ? null : tenant} />
    <footer>
      <${KeysHelp} /> <a href=${LICENSES} target="_blank" rel="noreferrer">Licences of what this page uses</a>
      <span class="quiet">Live each second; each ${SLOW_SECONDS} seconds when for ${QUIET_MINUTES} minutes nothing moved and nobody
        touched this page.</span>
    </footer>
  `;
}

const LICENSES = document.querySelector('link[rel="license"]')?.href;

export function Mark() {
  return html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true" width="22" height="22">
    <rect width="32" height="32" rx="6" fill="currentColor" />
    <path class="paper" d="M7 8h18v16H7z" />
    <path class="cut" d="M16 8v16" />
  </svg>`;
}

export function SignInPage({ title, session, failure = null }) {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState(failure);
  const button = useRef(null);
  useTitle(title);
  useEffect(() => button.current?.focus(), []);
  const ended = session.state === "ended";
  const signIn = () => {
    setBusy(true);
    session.signIn().catch((error) => {
      setFailed(error);
      setBusy(false);
    });
  };
  return html`<main class="door" id="content">
    <${Mark} />
    <h1>${title}</h1>
    ${failed && html`<p role="alert" class="failure">${failed.message}</p>`}
    <p>
      ${ended
        ? "Nothing was lost. Sign in again, and you are back on this page."
        : "Counterfoil’s console shows what failed, and why."}
    </p>
    <button ref=${button} class="main" type="button" disabled=${busy}
      onClick=${signIn}>Sign in</button>
  </main>`;
}
