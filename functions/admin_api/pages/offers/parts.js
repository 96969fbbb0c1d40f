// Shared parts of the pages of offers: progress of a pool, and names of shards.

import { html } from "htm/preact";
import { number, Time } from "../times.js";

export function Progress({ pool }) {
  return html`<progress value=${pool.completed} max=${Math.max(1, pool.users)} aria-label="People who have their offers"></progress>
    <span class="quiet"> ${number(pool.completed)}</span>`;
}

// "3": a range of the pool; "late/TIME/0": late users; ".../failed": quarantined users of a shard.
export function ShardName({ name }) {
  const words = name.split("/");
  const aside = words.filter((word) => word === "failed").length;
  const told = words[0] === "late" ? html`came late, <${Time} at=${words[1]} />` : `range ${number(Number(words[0]) + 1)}`;
  return html`${told}${aside > 0 && html` <span class="quiet">put aside${aside > 1 ? ` ${aside} times` : ""}</span>`}`;
}
