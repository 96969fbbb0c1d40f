// Small charts of the last hour by minute, with a text alternative.

import { html } from "htm/preact";

const HEIGHT = 24;
const STEP = 4; // units of one minute
const LEAST = 1.5; // of a bar that stands for anything at all

// What ended in each minute: what failed above what did not.
export function Ended({ done, failed, label }) {
  const most = Math.max(1, ...done.map((one, minute) => one + failed[minute]));
  const height = (count) => (count ? Math.max(LEAST, (count / most) * (HEIGHT - 1)) : 0);
  return html`<svg class="chart" viewBox=${`0 0 ${done.length * STEP} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${label}>
    <line x1="0" x2=${done.length * STEP} y1=${HEIGHT - 0.5} y2=${HEIGHT - 0.5} />
    ${done.map((one, minute) => {
      const [good, bad] = [height(one), height(failed[minute])];
      const x = minute * STEP;
      return html`${one > 0 && html`<rect class="ended" x=${x} y=${HEIGHT - good} width=${STEP - 1} height=${good} />`}
        ${failed[minute] > 0 && html`<rect class="failed" x=${x} y=${Math.max(0, HEIGHT - good - bad)} width=${STEP - 1} height=${bad} />`}`;
    })}
  </svg>`;
}

// A number over time; a gap where it was not measured (null).
export function Line({ values, label }) {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const point = (value, minute) => `${minute * STEP + STEP / 2} ${HEIGHT - 1 - (value / most) * (HEIGHT - 3)}`;
  let path = "";
  values.forEach((value, minute) => {
    if (value !== null) {
      const begins = minute === 0 || values[minute - 1] === null;
      path += `${begins ? "M" : "L"}${point(value, minute)}${begins ? "h.01" : ""}`;
    }
  });
  return html`<svg class="chart" viewBox=${`0 0 ${values.length * STEP} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${label}>
    <line x1="0" x2=${values.length * STEP} y1=${HEIGHT - 0.5} y2=${HEIGHT - 0.5} />
    <path d=${path} />
  </svg>`;
}

// Used share of a limit; the text next to it says the same.
export function Gauge({ used, of }) {
  const share = of ? Math.min(1, used / of) : 0;
  return html`<svg class=${`gauge ${share >= 1 ? "full" : ""}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="room" width="100" height="8" rx="4" /><rect class="used" width=${share * 100} height="8" rx="4" />
  </svg>`;
}
