// Cluster statuses, in the words that clerks use.
import type { Schemas } from "../api";

export const STATUSES = {
  exception: "Exception",
  "needs-review": "Needs review",
  disputed: "Disputed",
  incomplete: "Incomplete",
  accepted: "Accepted",
  matched: "Matched",
};

export function ClusterStatus({ status }: { status: Schemas["ClusterStatus"] }) {
  return <span class={`status ${status}`}>{STATUSES[status]}</span>;
}
