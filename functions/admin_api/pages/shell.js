// What every page has: head, navigation, the tenant; and the page in front of it, where people sign in.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "htm/preact";
import { go } from "./place.js";
import { DropZone } from "./documents/drop.js";
import { PausedBanner } from "./overview/overview.js";
import { Notice, useTitle } from "./parts.js";
import { KeysHelp } from "./keys.js";
import { ZoneSwitch } from "./times.js";

const KEPT = "counterfoil.tenant";

// The tenant whose things are shown: that of the address, the only one of the token, or the last one.
export function tenantOf(place, session) {
  const named = place.query.get("tenant");
  const own = tenants(session);
  if (named) {
    sessionStorage.setItem(KEPT, named);
    return named;
  }
  const last = sessionStorage.getItem(KEPT);
  if (own.every) {
    return last;
  }
  return own.slugs.includes(last) ? last : (own.slugs[0] ?? null);
}

function tenants(session) {
  const named = session.groups.filter((group) => group.startsWith("tenant:")).map((group) => group.slice(7));
  return { every: named.includes("*"), slugs: named.filter((slug) => slug !== "*").sort() };
}

function TenantChoice({ place, session }) {
  const { every, slugs } = tenants(session);
  const tenant = tenantOf(place, session) ?? "";
  const [text, setText] = useState(tenant);
  useEffect(() => setText(tenant), [tenant]);
  const choose = (slug) => slug && slug !== tenant && go(place.words[0], { tenant: slug });
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

function Links({ place, tenant, views }) {
  const here = views[place.words[0]]?.under ?? place.words[0];
  return Object.entries(views)
    .filter(([, { title }]) => title)
    .map(
      ([word, { title }]) =>
        html`<a href=${go.href(word, { tenant })} aria-current=${here === word ? "page" : undefined}>${title}</a>`,
    );
}

export function Shell({ place, session, views, children }) {
  const tenant = tenantOf(place, session);
  const content =
    tenant !== null || views[place.words[0]]?.bare
      ? children
      : tenants(session).every
        ? html`<${Notice} alone title="Which tenant?">Your role is for every tenant. Write the slug of one into the field above.<//>`
        : html`<${Notice} alone title="There is nothing for you yet"
            >Your account belongs to no tenant. Ask an admin to add you to the group <code>tenant:</code> and its slug,
            then sign out and in again.<//
          >`;
  return html`
    <a class="skip" href="#content">Skip to the content</a>
    <header class="top">
      <a class="brand" href=${go.href("", { tenant })}><${Mark} /> Counterfoil</a>
      <nav aria-label="Main"><${Links} place=${place} tenant=${tenant} views=${views} /></nav>
      <${TenantChoice} place=${place} session=${session} />
      <${ZoneSwitch} />
      <div class="user">
        <span title=${session.groups.join(", ")}>${session.claims.email ?? session.claims.sub}</span>
        <button type="button" onClick=${() => session.signOut()}>Sign out</button>
      </div>
    </header>
    <${PausedBanner} tenant=${tenant} />
    <main id="content" tabindex="-1">${content}</main>
    <${DropZone} tenant=${tenant} />
    <footer><${KeysHelp} /> <a href=${LICENSES} target="_blank" rel="noreferrer">Licences of what this page uses</a></footer>
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
  const button = useRef(null);
  useTitle(title);
  useEffect(() => button.current?.focus(), []);
  const ended = session.state === "ended";
  return html`<main class="door" id="content">
    <${Mark} />
    <h1>${title}</h1>
    ${failure && html`<p role="alert" class="failure">${failure.message}</p>`}
    <p>
      ${ended
        ? "Nothing was lost. Sign in again, and you are back on this page."
        : "Counterfoil’s console shows what failed, and why."}
    </p>
    <button ref=${button} class="main" type="button" disabled=${busy}
      onClick=${() => (setBusy(true), session.signIn())}>Sign in</button>
  </main>`;
}
