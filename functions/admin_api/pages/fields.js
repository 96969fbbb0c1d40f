// Fields of filters. `change` receives the new filter, by the names in the address.

import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";

export const ANY = ["", "any"];

// One of `options`: [value, how it is called] each.
export function Choice({ title, value, options, choose }) {
  return html`<label>${title}
    <select value=${value} onChange=${(event) => choose(event.target.value)}>
      ${options.map(([one, told]) => html`<option value=${one}>${told}</option>`)}
    </select>
  </label>`;
}

// The first day and the last one.
export function Days({ wanted, change }) {
  return html`<label>From
      <input type="date" value=${wanted.from} onChange=${(event) => change({ from: event.target.value })} />
    </label>
    <label>To
      <input type="date" value=${wanted.to} onChange=${(event) => change({ to: event.target.value })} />
    </label>`;
}

// Text that is typed and not searched for yet; reset by another address.
export function useTyped(known) {
  const [text, setText] = useState(known);
  useEffect(() => setText(known), [known]);
  return [text, setText];
}
