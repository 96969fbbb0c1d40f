// What several views are made of: how facts, states, waiting, nothing and failure look.

import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";

export function useTitle(title) {
  useEffect(() => {
    document.title = `${title} · Counterfoil`;
  }, [title]);
}

// `alone`: there is nothing else on the page.
export function Notice({ title, alone = false, children }) {
  return html`<section class="notice"><${alone ? "h1" : "h2"}>${title}<//><p>${children}</p></section>`;
}

export function Failure({ error, again }) {
  return html`<div class="notice failure" role="alert">
    <p>${error.message}</p>
    <button type="button" onClick=${again}>Try again</button>
  </div>`;
}

// While nothing is there to be shown: for a moment nothing, then that it takes a while.
export function Waiting({ what }) {
  return html`<p class="waiting" role="status">Loading ${what}…</p>`;
}

export function Status({ status }) {
  return html`<span class=${`status ${status}`}>${status[0].toUpperCase()}${status.slice(1)}</span>`;
}

// Names and what they stand for: [name, value] each.
export function FactList({ facts }) {
  return html`<dl class="facts">
    ${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

export function Id({ value }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(value);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return html`<code>${value}</code>
    <button type="button" class="small" onClick=${copy} aria-label=${`Copy ${value}`}>${copied ? "Copied" : "Copy"}</button>`;
}

// JSON that came from outside.
export function Json({ value, label }) {
  return html`<pre tabindex="0" role="region" aria-label=${label}>${JSON.stringify(value, null, 2)}</pre>`;
}

// Newest and older, where there are such pages.
export function Pages({ newest, older }) {
  return html`<p class="pages">
    ${newest && html`<a class="button" href=${newest}>Newest</a>`}
    ${older && html`<a class="button" href=${older}>Older</a>`}
  </p>`;
}
