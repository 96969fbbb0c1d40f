// Statuses of clusters in the words of clerks.

import { html } from "htm/preact";

export const STATUSES = {
  exception: "Exception",
  "needs-review": "Needs review",
  disputed: "Disputed",
  incomplete: "Incomplete",
  accepted: "Accepted",
  matched: "Matched",
};

export function ClusterStatus({ status }) {
  return html`<span class=${`status ${status}`}>${STATUSES[status]}</span>`;
}
