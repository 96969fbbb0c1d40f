// Keyboard shortcuts. Visible components register them, and a dialog lists them. They are ignored while the user types.
// Users of speech input or with motor impairments can turn them off (WCAG 2.1.4).

import type { TargetedEvent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Dialog } from "./dialog";

// `key`: as in KeyboardEvent. `act`: null if the browser handles the key.
export type Shortcut = { key: string; label: string; act: (() => unknown) | null };

const STORAGE_KEY = "counterfoil.keys";
const registered: Shortcut[][] = []; // by component, most recent last

export const shortcutsEnabled = () => localStorage.getItem(STORAGE_KEY) !== "off";

// Registers shortcuts while the component is displayed. The component that registered last takes precedence.
// Registration happens before the browser paints, so that a key cannot reach a component that was just replaced.
export function useShortcuts(keys: Shortcut[]) {
  useLayoutEffect(() => {
    registered.push(keys);
    return () => registered.splice(registered.indexOf(keys), 1);
  });
}

// Registers shortcuts that move the focus between table rows, to the first link or button in each row. Returns `body`,
// the ref for the `tbody`, and `focused()`, which returns the index of the focused row or -1.
export function useRowShortcuts(noun: string) {
  const body = useRef<HTMLTableSectionElement>(null);
  const rows = () => [...(body.current?.rows ?? [])];
  const focused = () => rows().findIndex((row) => row.contains(document.activeElement));
  const step = (by: number) => {
    const list = rows();
    const at = focused();
    const to = at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(Math.max(at + by, 0), list.length - 1);
    list[to]?.querySelector<HTMLElement>("a, button")?.focus();
  };
  useShortcuts([
    { key: "j", label: `Next ${noun}`, act: () => step(1) },
    { key: "k", label: `Previous ${noun}`, act: () => step(-1) },
  ]);
  return { body, focused };
}

const TYPING = "input:not([type=checkbox]):not([type=radio]):not([type=button]), textarea, select, [contenteditable]";

addEventListener("keydown", (event) => {
  const isPlain = !(event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented);
  const isTyping = event.target instanceof Element && event.target.closest(`${TYPING}, dialog`);
  if (!isPlain || !shortcutsEnabled() || isTyping || document.querySelector("dialog[open]")) {
    return;
  }
  for (let at = registered.length - 1; at >= 0; at -= 1) {
    const act = registered[at].find((one) => one.key === event.key && one.act)?.act;
    if (act) {
      event.preventDefault();
      act();
      return;
    }
  }
});

const FIRST = ["k", "j"]; // listed first, in reverse order
const NAMES: Record<string, string> = { Enter: "Enter", Escape: "Esc", " ": "Space" };

// Button and shortcut that open the list of shortcuts.
export function ShortcutsHelp() {
  const [open, setOpen] = useState(false);
  useShortcuts([{ key: "?", label: "Show keyboard shortcuts", act: () => setOpen(true) }]);
  return (
    <>
      <button type="button" class="link" onClick={() => setOpen(true)}>
        Keyboard shortcuts
      </button>
      {open && <ShortcutsDialog close={() => setOpen(false)} />}
    </>
  );
}

function ShortcutsDialog({ close }: { close: () => void }) {
  const [on, setOn] = useState(shortcutsEnabled);
  const turn = (event: TargetedEvent<HTMLInputElement>) => {
    localStorage.setItem(STORAGE_KEY, event.currentTarget.checked ? "on" : "off");
    setOn(event.currentTarget.checked);
  };
  const listed = [...registered]
    .reverse()
    .flat()
    .filter((one) => one.label)
    .sort((one, other) => FIRST.indexOf(other.key) - FIRST.indexOf(one.key));
  return (
    <Dialog title="Keyboard shortcuts" close={close}>
      <p class="muted">Shortcuts on this page. They are ignored while you type.</p>
      <dl class="shortcuts">
        {listed.map((one) => (
          <div>
            <dt>
              <kbd>{NAMES[one.key] ?? one.key}</kbd>
            </dt>
            <dd>{one.label}</dd>
          </div>
        ))}
      </dl>
      <p>
        <label class="choice">
          <input type="checkbox" checked={on} onChange={turn} /> Enable keyboard shortcuts
        </label>
      </p>
      <div class="buttons">
        <button class="primary" type="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
