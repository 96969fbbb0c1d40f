// What several views are made of: how facts, states, waiting, nothing and failure look.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask } from "./api.js";
import { shownJson } from "./letters/jsontext.js";
import { number } from "./times.js";

export function useTitle(title) {
  useEffect(() => {
    document.title = `${title} · Counterfoil`;
  }, [title]);
}

// `alone`: the page has no other content.
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
  return html`<span class=${`status ${status.replaceAll(" ", "-")}`}>${status[0].toUpperCase()}${status.slice(1)}</span>`;
}

// Names and values: [name, value] each.
export function FactList({ facts }) {
  return html`<dl class="facts">
    ${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

// A person, by the subject of the token.
export function Who({ value }) {
  return value === ask.session.claims.sub ? "you" : html`<span class="who">${value}</span>`;
}

// Result of the last action, with the focus, because the focused element is often removed.
export function Done({ children }) {
  const said = useRef(null);
  useEffect(() => said.current.focus(), [children]);
  return html`<p class="notice said" role="status" tabindex="-1" ref=${said}>${children}</p>`;
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

// JSON from outside: small values as text, large ones as a collapsible tree.
export function Json({ value, label }) {
  const text = shownJson(value, 2);
  const large = text.length > LARGE;
  const [asText, setAsText] = useState(false);
  return html`${large &&
    html`<p class="buttons">
      <button type="button" class="small" onClick=${() => setAsText(!asText)}>${asText ? "As a tree" : "As text"}</button>
    </p>`}
    ${large && !asText
      ? html`<div class="tree" tabindex="0" role="region" aria-label=${label}><${Branch} value=${value} depth=${0} /></div>`
      : html`<pre tabindex="0" role="region" aria-label=${label}>${text}</pre>`}`;
}

const LARGE = 2000; // characters
const LONG = 400; // characters of a text
const MANY = 100; // entries shown at once

function Branch({ name = null, value, depth }) {
  const label = name === null ? null : html`<b>${name}:</b> `;
  if (value === null || typeof value !== "object" || JSON.isRawJSON?.(value)) {
    return html`<div class="leaf">${label}<${Leaf} value=${value} /></div>`;
  }
  const entries = Object.entries(value);
  const count = Array.isArray(value) ? `[${number(entries.length)}]` : `{${number(entries.length)}}`;
  return html`<${Fold} open=${depth === 0 || (depth < 3 && entries.length <= 12)} head=${html`${label}<span class="quiet">${count}</span>`}
    entries=${entries} depth=${depth} />`;
}

function Fold({ open, head, entries, depth }) {
  const [shown, setShown] = useState(open);
  const [most, setMost] = useState(MANY);
  return html`<details open=${open} onToggle=${(event) => setShown(event.target.open)}>
    <summary>${head}</summary>
    ${shown && entries.slice(0, most).map(([name, one]) => html`<${Branch} key=${name} name=${name} value=${one} depth=${depth + 1} />`)}
    ${shown && entries.length > most &&
    html`<button type="button" class="small" onClick=${() => setMost(most + 10 * MANY)}>
      ${number(entries.length - most)} more</button>`}
  </details>`;
}

function Leaf({ value }) {
  const [whole, setWhole] = useState(false);
  const text = shownJson(value);
  if (text.length <= LONG || whole) {
    return html`<code>${text}</code>`;
  }
  return html`<code>${text.slice(0, LONG)}…</code>
    <button type="button" class="small" onClick=${() => setWhole(true)}>All ${number(text.length)} characters</button>`;
}

// Newest and older, where there are such pages; `names` where a list has another order.
export function Pages({ newest, older, names = ["Newest", "Older"] }) {
  return html`<p class="pages">
    ${newest && html`<a class="button" href=${newest}>${names[0]}</a>`}
    ${older && html`<a class="button" href=${older}>${names[1]}</a>`}
  </p>`;
}
