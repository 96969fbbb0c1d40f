// Dead letter groups, with their trends and with actions on whole groups.

import { useState } from "preact/hooks";
import { POLL_SLOW_SECONDS, type Schemas, useQuery } from "../api";
import { Status } from "../ui/components";
import { formatNumber, Time, toLabel } from "../ui/format";
import { ACTION_LIST, type Action, canChangeMany } from "./actions";
import { BulkDialog } from "./bulk";
import type { ListFilter } from "./dead_letters";
import { errorTitle } from "./error_title";

const FIRST_GROUPS = 10;
const MAX_GROUPS = 100; // the API's limit

// Each change to a dead letter changes `counts`, which triggers a new request.
export function Groups({
  filter,
  counts,
  hrefOf,
}: {
  filter: ListFilter;
  counts: Schemas["DeadLetterStats"] | null;
  hrefOf: (filter: ListFilter) => string;
}) {
  const { tenant, status } = filter;
  const allowsBulk = canChangeMany(tenant);
  const [dialog, setDialog] = useState<{ action: Action; group: Schemas["DeadLetterGroup"] } | null>(null);
  const [limit, setLimit] = useState(FIRST_GROUPS);
  const { data } = useQuery<Schemas["DeadLetterGroupPage"]>(["admin/dlq/groups", { tenant, status, limit }], {
    every: POLL_SLOW_SECONDS,
    version: counts,
  });
  // The list reports an error, and one group adds nothing to it.
  if (!data || data.groups.length < 2) {
    return null;
  }
  return (
    <section aria-labelledby="groups">
      <h2 id="groups">Groups by error</h2>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Error</th>
            <th scope="col">Worker</th>
            <th scope="col" class="count">
              Pending
            </th>
            <th scope="col">Last 24 hours</th>
            <th scope="col">Last failure</th>
            <th scope="col">Status</th>
            {allowsBulk && <th scope="col">Actions</th>}
          </tr>
        </thead>
        <tbody>
          {data.groups.map((group) => (
            <GroupRow
              key={group.fingerprint}
              group={group}
              allowsBulk={allowsBulk}
              href={hrefOf({ ...filter, fingerprint: group.fingerprint, cursor: "" })}
              begin={(action) => setDialog({ action, group })}
            />
          ))}
        </tbody>
      </table>
      {data.next_cursor && (
        <p class="muted">
          Only the {formatNumber(data.groups.length)} groups with the latest failures are shown.
          {limit < MAX_GROUPS && (
            <>
              {" "}
              <button type="button" class="link" onClick={() => setLimit(MAX_GROUPS)}>
                Show more groups
              </button>
            </>
          )}
        </p>
      )}
      {dialog && (
        <BulkDialog
          action={dialog.action}
          deadLetters={[]}
          filter={{ tenant, fingerprint: dialog.group.fingerprint }}
          group={titleOf(dialog.group)}
          close={() => setDialog(null)}
        />
      )}
    </section>
  );
}

const titleOf = ({ error_type: type, message }: Schemas["DeadLetterGroup"]) => errorTitle({ type, message });

// A group is open unless it was resolved or ignored as a whole.
const statusOf = ({ state, pending }: Schemas["DeadLetterGroup"]) =>
  state !== "open" ? state : pending > 0 ? "pending" : "closed";

function GroupRow({
  group,
  allowsBulk,
  href,
  begin,
}: {
  group: Schemas["DeadLetterGroup"];
  allowsBulk: boolean;
  href: string;
  begin: (action: Action) => void;
}) {
  return (
    <tr>
      <td data-label="Error">
        <a href={href}>{titleOf(group)}</a> <span class="muted">{group.error_type}</span>
      </td>
      <td data-label="Worker">{toLabel(group.worker)}</td>
      <td data-label="Pending" class="count">
        {formatNumber(group.pending)} <span class="muted">of {formatNumber(group.count)}</span>
      </td>
      <td data-label="Last 24 hours">
        <Trend counts={group.trend} />
      </td>
      <td data-label="Last failure">
        <Time at={group.last_seen} />
      </td>
      <td data-label="Status">
        <Status status={statusOf(group)} />
      </td>
      {allowsBulk && (
        <td data-label="Actions">
          {group.pending > 0 && (
            <div class="buttons">
              {ACTION_LIST.map(([name, { verb }]) => (
                <button
                  type="button"
                  class="small"
                  aria-label={`${verb} the group: ${titleOf(group)}`}
                  onClick={() => begin(name)}
                >
                  {verb}…
                </button>
              ))}
            </div>
          )}
        </td>
      )}
    </tr>
  );
}

function Trend({ counts }: { counts: number[] }) {
  const most = Math.max(1, ...counts);
  const sum = counts.reduce((total, one) => total + one, 0);
  return (
    <svg
      class="trend"
      viewBox={`0 0 ${counts.length * 5} 20`}
      role="img"
      aria-label={
        sum
          ? `Failures in the last 24 hours: ${formatNumber(sum)}, with a peak of ${formatNumber(most)} per hour`
          : "No failures in the last 24 hours"
      }
    >
      {counts.map((one, hour) => {
        const height = one ? Math.max(2, (one / most) * 19) : 1;
        return <rect class={one ? "filled" : "empty"} x={hour * 5} y={20 - height} width="4" height={height} />;
      })}
    </svg>
  );
}
