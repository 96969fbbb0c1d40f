// The audit trail and how to verify it.

import type { TargetedEvent } from "preact";
import { POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { currentSession } from "../current_session";
import { navigate, useRoute } from "../router";
import { tenantOf } from "../tenant";
import { Command, CopyableId, ErrorNotice, Loading, Notice, Pagination, useTitle } from "../ui/components";
import { formatNumber, shortId, Time, toLabel } from "../ui/format";
import { formatJson } from "../ui/json_text";
import { UserName } from "../ui/user_name";

type Entry = Schemas["AuditRecord"];

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function Audit() {
  const route = useRoute();
  const tenant = tenantOf(route, currentSession());
  const target = route.query.get("target") ?? "";
  const cursor = route.query.get("cursor") ?? "";
  useTitle("Audit trail");
  const { data, error, reload } = useQuery<Schemas["AuditPage"]>(["admin/dlq/audit", { tenant, target, cursor }], {
    every: cursor ? 0 : POLL_FAST_SECONDS,
  });
  return (
    <>
      <h1>Audit trail</h1>
      <p class="lead">
        Changes and exports by users, and automatic changes to operations. Entries cannot be changed or deleted. Each
        entry contains its own hash and the hash of the previous entry.
      </p>
      <Filter tenant={tenant} target={target} />
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <section aria-label="Entries">
          {data.entries.length ? (
            <AuditEntries entries={data.entries} tenant={tenant} />
          ) : (
            <Notice title="No entries">
              {target ? "There are no changes to this object." : "There are no changes in this tenant yet."}
            </Notice>
          )}
          <Pagination
            newest={cursor && navigate.href("audit", { tenant, target })}
            older={
              data.next_cursor === null ? null : navigate.href("audit", { tenant, target, cursor: data.next_cursor })
            }
          />
        </section>
      ) : (
        !error && <Loading subject="the audit trail" />
      )}
      <section aria-labelledby="verify">
        <h2 id="verify">Verify the audit trail</h2>
        <p>
          This command verifies every hash. It requires the viewer role. Set <code>COUNTERFOIL_URL</code> to this
          deployment’s URL and <code>COUNTERFOIL_TOKEN</code> to an ID token.
        </p>
        <Command text={`counterfoil audit verify --tenant ${tenant}`} label="Command that verifies the audit trail" />
        <p class="muted">
          The command reports the first entry that was changed, removed, inserted or moved. Regularly store the hash of
          the newest entry elsewhere, because a rewritten audit trail cannot match it.
        </p>
      </section>
    </>
  );
}

function Filter({ tenant, target }: { tenant: string | null; target: string }) {
  const submit = (event: TargetedEvent<HTMLFormElement>) => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget).get("target");
    navigate("audit", { tenant, target: String(typed).trim() });
  };
  return (
    <form class="filter" role="search" aria-label="Audit" onSubmit={submit}>
      <label class="wide">
        Changes to one object, by ID
        <input
          type="search"
          name="target"
          key={target}
          defaultValue={target}
          spellcheck={false}
          autocomplete="off"
          pattern={ID.source}
          title="The complete ID. Copy it from the object’s page."
        />
      </label>
      <div class="buttons">
        <button class="primary" type="submit">
          Show
        </button>
        {target && (
          <a class="button" href={navigate.href("audit", { tenant })}>
            Clear
          </a>
        )}
      </div>
    </form>
  );
}

// Audit entries. `isSingleTarget`: all entries concern the dead letter on the page, so the target is omitted.
export function AuditEntries({
  entries,
  tenant,
  isSingleTarget = false,
}: {
  entries: Entry[];
  tenant: string | null;
  isSingleTarget?: boolean;
}) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col" class="count">
            No.
          </th>
          <th scope="col">Time</th>
          <th scope="col">User</th>
          <th scope="col">Action</th>
          {!isSingleTarget && <th scope="col">Target</th>}
          <th scope="col">Details</th>
        </tr>
      </thead>
      <tbody>
        {entries.map((entry) => (
          <tr key={entry.number}>
            <td data-label="No." class="count">
              {formatNumber(entry.number)}
            </td>
            <td data-label="Time">
              <Time at={entry.recorded_at} />
            </td>
            <td data-label="User">
              <UserName value={entry.actor} isCapitalized />
            </td>
            <td data-label="Action">
              {toLabel(entry.action)}
              {entry.version_after !== null && (
                <>
                  {" "}
                  <span class="muted">
                    version {entry.version_before} → {entry.version_after}
                  </span>
                </>
              )}
            </td>
            {!isSingleTarget && (
              <td data-label="Target">
                <Targets entry={entry} tenant={tenant} />
              </td>
            )}
            <td data-label="Details">
              <Details entry={entry} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const MAX_SHOWN = 3;
const DEAD_LETTER_ACTIONS = ["retried", "resolved", "ignored", "edited"];

// Returns the view that shows the changed object, or null.
function viewOf(action: string) {
  return DEAD_LETTER_ACTIONS.includes(action) ? "dead-letters" : action.startsWith("bulk-") ? "operations" : null;
}

function Targets({ entry: { action, targets }, tenant }: { entry: Entry; tenant: string | null }) {
  const view = viewOf(action);
  const short = (target: string) => <code title={target}>{ID.test(target) ? `…${shortId(target)}` : target}</code>;
  return (
    <>
      {targets.slice(0, MAX_SHOWN).map((target) =>
        view ? (
          <>
            <a href={navigate.href(`${view}/${target}`, { tenant })}>{short(target)}</a>{" "}
          </>
        ) : (
          <>{short(target)} </>
        ),
      )}
      {targets.length > MAX_SHOWN && <span class="muted">and {formatNumber(targets.length - MAX_SHOWN)} more</span>}
    </>
  );
}

function Details({ entry }: { entry: Entry }) {
  const { detail } = entry;
  return (
    <details>
      <summary>Hashes{Object.keys(detail).length > 0 && " and details"}</summary>
      <p>
        Hash of this entry: <CopyableId value={entry.hash} />
      </p>
      {entry.note_hash && (
        <p>
          Hash of the note: <CopyableId value={entry.note_hash} />
        </p>
      )}
      {Object.keys(detail).length > 0 && (
        <pre tabindex={0} role="region" aria-label="Details">
          {formatJson(detail, 2)}
        </pre>
      )}
    </details>
  );
}
