// Keyboard shortcuts: registered by visible components, listed in a dialog, ignored while typing, and
// switchable (WCAG 2.1.4) for users of speech input or with motor impairments.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "htm/preact";
import { Dialog } from "./dialog.js";

const KEPT = "counterfoil.keys";
const shown = []; // lists of { key, what, act }, the latest last

export const keysAreOn = () => localStorage.getItem(KEPT) !== "off";

// While the component is displayed: [{ key, what, act }]. `key` as in KeyboardEvent; `what` for people, without which it
// is not listed; `act` null if the browser handles it. Nested components come first. Registered before anything is
// painted, so that a key cannot reach a component that has just been replaced.
export function useKeys(keys) {
  useLayoutEffect(() => {
    shown.push(keys);
    return () => shown.splice(shown.indexOf(keys), 1);
  });
}

// Keys that move the focus through the rows of a table, to the first link or button of each. Returns { body, focused }:
// the ref of the table's `tbody`, and a function that returns the index of the row with the focus, or -1.
export function useRowKeys(noun) {
  const body = useRef(null);
  const rows = () => [...(body.current?.rows ?? [])];
  const focused = () => rows().findIndex((row) => row.contains(document.activeElement));
  const step = (by) => {
    const list = rows();
    const at = focused();
    const to = at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(Math.max(at + by, 0), list.length - 1);
    list[to]?.querySelector("a, button")?.focus();
  };
  useKeys([
    { key: "j", what: `Next ${noun}`, act: () => step(1) },
    { key: "k", what: `Previous ${noun}`, act: () => step(-1) },
  ]);
  return { body, focused };
}

const TYPING = "input:not([type=checkbox]):not([type=radio]):not([type=button]), textarea, select, [contenteditable]";

addEventListener("keydown", (event) => {
  const meant = !(event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented);
  if (!meant || !keysAreOn() || event.target.closest?.(`${TYPING}, dialog`) || document.querySelector("dialog[open]")) {
    return;
  }
  for (let at = shown.length - 1; at >= 0; at -= 1) {
    const found = shown[at].find((one) => one.key === event.key && one.act);
    if (found) {
      event.preventDefault();
      found.act();
      return;
    }
  }
});

const NAMES = { Enter: "Enter", Escape: "Esc", " ": "Space" };

// The button that shows the list, and the key that does.
export function KeysHelp() {
  const [open, setOpen] = useState(false);
  useKeys([{ key: "?", what: "Show this list", act: () => setOpen(true) }]);
  return html`<button type="button" class="link" onClick=${() => setOpen(true)}>Keys</button>
    ${open && html`<${KeysDialog} close=${() => setOpen(false)} />`}`;
}

function KeysDialog({ close }) {
  const [on, setOn] = useState(keysAreOn);
  const turn = (event) => {
    localStorage.setItem(KEPT, event.target.checked ? "on" : "off");
    setOn(event.target.checked);
  };
  const listed = [...shown].reverse().flat().filter((one) => one.what);
  return html`<${Dialog} title="Keys" close=${close}>
    <p class="quiet">On this page. Shortcuts are ignored while you type.</p>
    <dl class="keys">
      ${listed.map((one) => html`<div><dt><kbd>${NAMES[one.key] ?? one.key}</kbd></dt><dd>${one.what}</dd></div>`)}
    </dl>
    <p><label class="choice"><input type="checkbox" checked=${on} onChange=${turn} /> Single keys do things</label></p>
    <div class="buttons"><button class="main" type="button" onClick=${close}>Close</button></div>
  <//>`;
}
