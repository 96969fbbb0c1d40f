// Progress of a document by stage, and in one word.

import { html } from "htm/preact";
import { Status } from "../parts.js";

const NAMES = { source: "Taking in", ingestion: "Reading", matching: "Matching", output: "Delivery" };
const NEXT = ["failed", "in-progress", "pending"]; // the most important first

// The stage that says how the document is: [state, stage].
export function furthest(stages) {
  for (const state of NEXT) {
    const found = stages.find((one) => one.state === state);
    if (found) {
      return found;
    }
  }
  return stages.findLast((one) => one.state !== "none") ?? { stage: null, state: "pending", reason: null };
}

// Whether no stage up to matching is pending, in progress or failed.
export const isDone = (stages) => !stages.some(({ stage, state }) => stage !== "output" && NEXT.includes(state));

export function Furthest({ stages }) {
  const { stage, state } = furthest(stages);
  return html`<${Status} status=${state} />${stage && html` <span class="quiet">${NAMES[stage]}</span>`}`;
}

export function Stages({ stages }) {
  return html`<ol class="stages" aria-label="Stages">
    ${stages.map(
      ({ stage, state, reason }) => html`<li>
        <b>${NAMES[stage]}</b> ${state === "none" ? html`<span class="quiet">not begun</span>` : html`<${Status} status=${state} />`}
        ${reason && html`<p class=${state === "failed" ? "failure" : "quiet"}>${reason}</p>`}
      </li>`,
    )}
  </ol>`;
}

// Filters of the list: the API's names and their labels.
export const HOW_FAR = [
  ["source:failed", "could not be taken in"],
  ["ingestion:pending", "waiting to be read"],
  ["ingestion:in-progress", "being read"],
  ["ingestion:failed", "could not be read"],
  ["matching:pending", "waiting to be matched"],
  ["matching:in-progress", "being matched"],
  ["matching:succeeded", "matched"],
  ["matching:skipped", "nothing to match"],
  ["matching:failed", "could not be matched"],
  ["output:failed", "could not be delivered"],
];
