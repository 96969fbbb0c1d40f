// Evidence as a waterfall: bits of each feature for or against a match, and their sum.

import { html } from "htm/preact";

const WIDTH = 200;
const HEIGHT = 14;
const LEAST = 2; // of a bar that stands for anything at all

export const bits = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`;

// Lowest and highest sum of several waterfalls, so that their bars have the same scale.
export function spanOf(evidences) {
  const sums = evidences.flatMap((evidence) => evidence.map((step) => step.total));
  return { low: Math.min(0, ...sums), high: Math.max(0, ...sums) };
}

// The table says in words and numbers what the bars show.
export function Waterfall({ evidence, span = spanOf([evidence]), total, caption }) {
  const scale = WIDTH / Math.max(span.high - span.low, 1);
  const place = (value) => (value - span.low) * scale;
  return html`<table class="waterfall">
    <caption class="unseen">${caption}</caption>
    <thead class="unseen"><tr><th scope="col">Feature</th><th scope="col">So far</th><th scope="col">Bits</th></tr></thead>
    <tbody>
      ${evidence.map((step) => html`<${Step} step=${step} place=${place} />`)}
    </tbody>
    <tfoot>
      <tr><th scope="row">In all</th><td></td><td class="count">${bits(total)} bits</td></tr>
    </tfoot>
  </table>`;
}

function Step({ step, place }) {
  const [from, to] = [place(step.total - step.bits), place(step.total)];
  const width = Math.max(Math.abs(to - from), LEAST);
  const kind = step.bits > 0 ? "for" : step.bits < 0 ? "against" : "neither";
  return html`<tr>
    <th scope="row">${step.label} <span class="quiet">${step.text}</span></th>
    <td><svg class="bar" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <line x1=${place(0)} x2=${place(0)} y1="0" y2=${HEIGHT} />
      <rect class=${kind} x=${Math.min(from, to)} y="3" width=${width} height=${HEIGHT - 6} />
    </svg></td>
    <td class="count">${bits(step.bits)}</td>
  </tr>`;
}
