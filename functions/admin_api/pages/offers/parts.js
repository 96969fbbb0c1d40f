// What the pages of offers have in common: how far a pool is, and what a shard is called.

import { html } from "htm/preact";
import { number, Time } from "../times.js";

export function Progress({ pool }) {
  return html`<progress value=${pool.completed} max=${Math.max(1, pool.users)} aria-label="People who have their offers"></progress>
    <span class="quiet"> ${number(pool.completed)}</span>`;
}

// "3": a range of the pool; "late/TIME/0": who came late; ".../failed": who could not be served with the others of a shard.
export function ShardName({ name }) {
  const words = name.split("/");
  const aside = words.filter((word) => word === "failed").length;
  const told = words[0] === "late" ? html`came late, <${Time} at=${words[1]} />` : `range ${number(Number(words[0]) + 1)}`;
  return html`${told}${aside > 0 && html` <span class="quiet">put aside${aside > 1 ? ` ${aside} times` : ""}</span>`}`;
}
