// The workers' queues: depths, outcomes and failures, and buttons that pause and resume them.

import { useState } from "preact/hooks";
import { etagOf, POLL_FAST_SECONDS, POLL_SLOW_SECONDS, type Schemas, send, useQuery } from "../api";
import { currentSession } from "../current_session";
import { canSeeAllTenants, hasRole } from "../roles";
import { navigate, useRoute } from "../router";
import { tenantOf } from "../tenant";
import { ErrorNotice, Loading, Notice, Status, useTitle } from "../ui/components";
import { refetchOnConflict } from "../ui/conflict";
import { NoteDialog } from "../ui/dialog";
import { formatDuration, formatNumber, formatPercent, formatRate, Time, toLabel } from "../ui/format";
import { UserName } from "../ui/user_name";
import { Gauge, LineChart, ThroughputChart } from "./charts";

type Overview = Schemas["QueuesOverview"];
type Queue = Schemas["QueueOverview"];

export const workerName = (worker: string) => worker.replaceAll("_", " ");
const sum = (values: number[]) => values.reduce((total, one) => total + one, 0);
// A value that was not measured is unknown, not zero.
const orUnknown = (value: number | null) => (value === null ? "–" : formatNumber(value));

export function Overview() {
  const route = useRoute();
  const tenant = tenantOf(route, currentSession());
  const allTenants = canSeeAllTenants() && route.query.get("of") !== "tenant";
  const { data, error, busy, reload } = useQuery<Schemas["QueuesOverview"]>(
    ["admin/queues", { tenant: allTenants ? "" : tenant }],
    {
      every: POLL_FAST_SECONDS,
    },
  );
  useTitle("Overview");
  return (
    <>
      <h1>Overview</h1>
      <p class="lead">Pending and in-progress work items, and outcomes in the last hour.</p>
      {canSeeAllTenants() && tenant && <ScopeSwitch allTenants={allTenants} tenant={tenant} />}
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <div aria-busy={busy}>
          <Totals data={data} tenant={tenant} />
          <Alerts data={data} />
          <Queues data={data} tenant={tenant} reload={reload} />
        </div>
      ) : (
        !error && <Loading subject="the queues" />
      )}
    </>
  );
}

function ScopeSwitch({ allTenants, tenant }: { allTenants: boolean; tenant: string }) {
  return (
    <nav class="segmented-control" aria-label="Tenants">
      <a href={navigate.href("overview", { tenant })} aria-current={allTenants ? "true" : undefined}>
        All tenants
      </a>
      <a href={navigate.href("overview", { tenant, of: "tenant" })} aria-current={allTenants ? undefined : "true"}>
        Only {tenant}
      </a>
    </nav>
  );
}

function Totals({ data, tenant }: { data: Overview; tenant: string | null }) {
  const total = (name: "pending" | "running" | "dead_letters") => {
    const values = data.queues.map((queue) => queue[name]);
    return orUnknown(values.includes(null) ? null : sum(values as number[]));
  };
  const ended = sum(
    data.queues.map((queue) => sum(queue.minutes.succeeded) + sum(queue.minutes.skipped) + sum(queue.minutes.failed)),
  );
  const failed = sum(data.queues.map((queue) => sum(queue.minutes.failed)));
  return (
    <>
      <dl class="totals">
        <div>
          <dt>Pending</dt>
          <dd>{total("pending")}</dd>
        </div>
        <div>
          <dt>In progress</dt>
          <dd>{total("running")}</dd>
        </div>
        <div>
          <dt>Ended in the last hour</dt>
          <dd>{formatNumber(ended)}</dd>
        </div>
        <div class={failed ? "bad" : ""}>
          <dt>Failed in the last hour</dt>
          <dd>
            {formatNumber(failed)} {ended > 0 && <span class="muted">({formatPercent(failed / ended)})</span>}
          </dd>
        </div>
        <div>
          <dt>Pending dead letters</dt>
          <dd>
            {data.tenant === null ? (
              total("dead_letters")
            ) : (
              <a href={navigate.href("dead-letters", { tenant })}>{total("dead_letters")}</a>
            )}
          </dd>
        </div>
      </dl>
      <p class="muted">
        {data.measured_at ? (
          <>
            Pending work items and dead letters were counted at <Time at={data.measured_at} />. The number in progress
            is current.
          </>
        ) : (
          "Pending work items were not counted in the last hour. The watchdog is not running, or the deployment is new."
        )}
      </p>
    </>
  );
}

function Alerts({ data }: { data: Overview }) {
  const breakers = data.breakers ?? [];
  const alarms = data.alarms ?? [];
  if (!breakers.length && !alarms.length) {
    return (
      data.breakers && (
        <p class="all-clear">
          {data.alarms
            ? "No alarms are active, and all services are available."
            : "All services are available. Alarm states are unknown, because CloudWatch did not respond."}
        </p>
      )
    );
  }
  return (
    <section class="notice failure" aria-labelledby="alerts">
      <h2 id="alerts">Needs attention</h2>
      <ul>
        {alarms.map((alarm) => (
          <li>
            <b>{alarm.name}</b>
            {alarm.since && (
              <>
                {" "}
                since <Time at={alarm.since} />
              </>
            )}
            {alarm.description && (
              <>
                <br />
                {alarm.description}
              </>
            )}
          </li>
        ))}
        {breakers.map((breaker) => (
          <li>
            <b>{breaker.name}</b> has been unavailable since <Time at={breaker.since} />. The next call is at{" "}
            <Time at={breaker.until} />.
          </li>
        ))}
      </ul>
    </section>
  );
}

function Queues({ data, tenant, reload }: { data: Overview; tenant: string | null; reload: () => void }) {
  if (!data.queues.length) {
    return <Notice title="No queues">This deployment has no workers with a queue.</Notice>;
  }
  const canPause = hasRole("admin") && canSeeAllTenants() && data.tenant === null;
  const allTenants = data.tenant === null;
  return (
    <section aria-labelledby="queues">
      <h2 id="queues">Queues</h2>
      <table class="rows queues">
        <thead>
          <tr>
            <th scope="col">Worker</th>
            <th scope="col" class="count">
              Pending
            </th>
            <th scope="col">Oldest pending</th>
            <th scope="col">In progress</th>
            {allTenants && (
              <th scope="col">
                Messages <span class="legend">(visible + in flight + delayed)</span>
              </th>
            )}
            <th scope="col">Ended, last hour</th>
            <th scope="col" class="count">
              Failed, last hour
            </th>
            <th scope="col" class="count">
              Dead letters
            </th>
            {canPause && (
              <th scope="col">
                <span class="visually-hidden">Pause or resume</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {data.queues.map((queue) => (
            <Row
              key={queue.worker}
              queue={queue}
              allTenants={allTenants}
              canPause={canPause}
              tenant={tenant}
              reload={reload}
            />
          ))}
        </tbody>
      </table>
      {allTenants && <p class="muted">Messages (visible + in flight + delayed) are estimated by SQS.</p>}
    </section>
  );
}

function Row({
  queue,
  allTenants,
  canPause,
  tenant,
  reload,
}: {
  queue: Queue;
  allTenants: boolean;
  canPause: boolean;
  tenant: string | null;
  reload: () => void;
}) {
  const { minutes } = queue;
  const done = minutes.succeeded.map((one, minute) => one + minutes.skipped[minute]);
  const failed = sum(minutes.failed);
  const ended = sum(done) + failed;
  const outcomes = `${formatNumber(ended)} ended in the last hour, ${formatNumber(failed)} of them failed`;
  return (
    <tr class={queue.is_paused ? "paused" : ""}>
      <td data-label="Worker">
        <b>{toLabel(queue.worker)}</b>
        {queue.is_paused && (
          <>
            {" "}
            <Status status="paused" />
          </>
        )}
        {queue.is_applied === false && (
          <>
            <br />
            <span class="muted">Not yet applied to Lambda.</span>
          </>
        )}
      </td>
      <td data-label="Pending" class="count">
        {orUnknown(queue.pending)}
      </td>
      <td data-label="Oldest pending" class="oldest">
        {queue.oldest_seconds === null ? <span class="muted">–</span> : formatDuration(queue.oldest_seconds)}
      </td>
      <td data-label="In progress" class="chart-cell">
        <span class="chart-label">
          {formatNumber(queue.running)}
          {queue.concurrency_limit && (
            <>
              {" "}
              <span class="muted">of {formatNumber(queue.concurrency_limit)}</span>
            </>
          )}
        </span>
        {queue.concurrency_limit && <Gauge used={queue.running} of={queue.concurrency_limit} />}
      </td>
      {allTenants && (
        <td data-label="Messages" class="chart-cell">
          <Messages queue={queue} />
        </td>
      )}
      <td data-label="Ended, last hour" class="chart-cell">
        <span class="chart-label">
          {formatNumber(ended)} {ended > 0 && <span class="muted">({formatRate(ended, done.length)})</span>}
        </span>
        <ThroughputChart
          done={done}
          failed={minutes.failed}
          label={`${outcomes}; at most ${formatNumber(Math.max(...done))} succeeded or skipped per minute`}
        />
      </td>
      <td data-label="Failed, last hour" class={`count ${failed ? "bad" : ""}`}>
        {formatNumber(failed)} {ended > 0 && <span class="muted">({formatPercent(failed / ended)})</span>}
      </td>
      <td data-label="Dead letters" class="count">
        {queue.dead_letters && !allTenants ? (
          <a href={navigate.href("dead-letters", { tenant })}>{formatNumber(queue.dead_letters)}</a>
        ) : (
          orUnknown(queue.dead_letters)
        )}
      </td>
      {canPause && (
        <td>
          <PauseButton queue={queue} reload={reload} />
        </td>
      )}
    </tr>
  );
}

function Messages({ queue }: { queue: Queue }) {
  const { approximate_visible: visible, approximate_in_flight: inFlight, approximate_delayed: delayed } = queue;
  if (visible === null) {
    return <span class="muted">Unknown</span>;
  }
  const depth = queue.minutes.depth.filter((one) => one !== null);
  const [last, most] = [depth[depth.length - 1], Math.max(...depth)].map((one) => formatNumber(one ?? 0));
  return (
    <>
      <span class="chart-label">
        {formatNumber(visible)}{" "}
        <span class="muted">
          + {formatNumber(inFlight ?? 0)} + {formatNumber(delayed ?? 0)}
        </span>
      </span>
      <LineChart
        values={queue.minutes.depth}
        label={
          depth.length
            ? `Messages in the last hour: latest ${last}, maximum ${most}`
            : "No measurements in the last hour"
        }
      />
    </>
  );
}

function PauseButton({ queue, reload }: { queue: Queue; reload: () => void }) {
  const [isOpen, setIsOpen] = useState(false);
  const [verb, path] = queue.is_paused ? ["Resume", "resume"] : ["Pause", "pause"];
  const name = workerName(queue.worker);
  const act = (reason: string) =>
    refetchOnConflict(reload, async () => {
      await send("POST", `admin/queues/${queue.worker}/${path}`, { reason }, { etag: etagOf(queue.version) });
      setIsOpen(false);
      reload();
    });
  return (
    <>
      <button type="button" aria-label={`${verb} ${name}…`} onClick={() => setIsOpen(true)}>
        {verb}…
      </button>
      {isOpen && (
        <NoteDialog
          title={`${verb} the ${name} queue?`}
          verb={verb}
          label="Reason"
          act={act}
          close={() => setIsOpen(false)}
        >
          {queue.is_paused ? (
            <>
              {queue.paused && (
                <p>
                  Paused by <UserName value={queue.paused.by} /> on <Time at={queue.paused.at} />: {queue.paused.reason}
                </p>
              )}
              <p class="muted">The worker will continue with the messages in the queue.</p>
            </>
          ) : (
            <>
              <p>
                Work items in this queue will not start for any tenant until you resume it. Pausing does not use up
                attempts. Work items already in progress will finish.
              </p>
              <p class="muted">
                Users of every tenant see the reason on every page, so do not name a tenant. Only users with access to
                all tenants see who paused the queue.
              </p>
            </>
          )}
        </NoteDialog>
      )}
    </>
  );
}

// Banner that every page shows while a queue is paused.
export function PausedBanner({ tenant }: { tenant: string | null }) {
  const { data } = useQuery<Schemas["PausedQueues"]>(["admin/queues/paused", {}], { every: POLL_SLOW_SECONDS });
  const queues = data?.queues ?? [];
  const isOverview = useRoute().segments[0] === "overview";
  return (
    <div role="status">
      {queues.length > 0 && (
        <div class="banner">
          <b>{queues.length === 1 ? "A queue is" : `${formatNumber(queues.length)} queues are`} paused.</b>
          {queues.map((queue) => (
            <span>
              {toLabel(queue.worker)}: paused{" "}
              {queue.paused && (
                <>
                  by <UserName value={queue.paused.by} />{" "}
                </>
              )}
              since{" "}
              <span class="single-line">
                <Time at={queue.since} />.
              </span>{" "}
              Reason: {queue.reason}
            </span>
          ))}
          {!isOverview && <a href={navigate.href("overview", { tenant })}>Overview</a>}
        </div>
      )}
    </div>
  );
}
