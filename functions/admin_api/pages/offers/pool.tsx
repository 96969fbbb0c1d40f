// Offers for one date and time zone: their progress, shards and failed users.

import { useState } from "preact/hooks";
import { POLL_LEADER_SECONDS, POLL_SLOW_SECONDS, type Schemas, useQuery } from "../api";
import { navigate, type Query, useRoute } from "../router";
import { CopyableId, ErrorNotice, type Fact, FactList, Loading, Notice, Status, useTitle } from "../ui/components";
import { formatCount, formatDay, formatDuration, formatNumber, secondsBetween, Time, toLabel } from "../ui/format";
import { Progress, ShardName, shownState } from "./shards";
import { Job } from "./user_offers";

// The OpenAPI description has no schema for the rules.
type Rules = {
  max_offers: number;
  max_candidates: number;
  max_exposure?: number | null;
  repeat_interval_days: number;
};
type PoolDetail = Schemas["OfferPoolDetail"];

const DESCRIPTIONS = {
  running: "Offers are being computed. You can close this page.",
  completed: "All users have their offers. Stored offers never change.",
  failed: "Offers could not be computed for some users. Fix the cause, then retry the shard’s dead letter.",
};

// The second path segment is a pool's id. The third, if present, is a user's id.
export function OfferPage({ id, segments }: { id: string; segments: string[] }) {
  return segments.length > 2 ? <Job pool={id} user={segments[2]} /> : <Pool id={id} />;
}

function Pool({ id }: { id: string }) {
  const path = `admin/offers/${encodeURIComponent(id)}`;
  const {
    data: pool,
    error,
    reload,
  } = useQuery<Schemas["OfferPoolDetail"]>([path, {}], { every: POLL_LEADER_SECONDS });
  useTitle(pool ? `${formatDay(pool.date)}, ${pool.timezone} · Offers` : "Offers");
  const back = (
    <p>
      <a href={navigate.href("offers", { tenant: pool?.tenant })}>All offers</a>
    </p>
  );
  if (!pool) {
    return (
      <>
        {back}
        {error?.status === 404 ? (
          <Notice isWholePage title="Offers not found">
            They were deleted after their retention period, or they belong to a tenant that you cannot access.
          </Notice>
        ) : (
          <>
            <h1>Offers</h1>
            {error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="the offers" />}
          </>
        )}
      </>
    );
  }
  return (
    <>
      {back}
      <h1>
        <Status status={shownState(pool.state)} /> Offers for {formatDay(pool.date)}, {pool.timezone}
      </h1>
      {error && <ErrorNotice error={error} reload={reload} />}
      <p>{DESCRIPTIONS[pool.state]}</p>
      <p class="total-progress">
        <Progress pool={pool} /> <span class="muted">of {formatNumber(pool.user_count)}</span>
      </p>
      <dl class="counts">
        {(["completed", "running", "pending", "failed", "late_users"] as const).map((name) => (
          <div>
            <dt>{name === "late_users" ? "Late" : toLabel(shownState(name))}</dt>
            <dd class={pool[name] && (name === "failed" || name === "late_users") ? "bad" : ""}>
              {formatNumber(pool[name])}
            </dd>
          </div>
        ))}
      </dl>
      <Facts pool={pool} />
      <FindUser pool={pool} />
      {pool.failed > 0 && <FailedUsers path={path} pool={pool} />}
      <section aria-label="Shards">
        <h2>Shards</h2>
        <Shards pool={pool} />
      </section>
    </>
  );
}

function Facts({ pool }: { pool: PoolDetail }) {
  const rules = pool.rules as Rules;
  const offers = formatCount(rules.max_offers, "offer");
  const candidates = `${offers} from ${formatCount(rules.max_candidates, "candidate")}`;
  const repeats = `no repeats within ${formatCount(rules.repeat_interval_days, "day")}`;
  const most = rules.max_exposure && `each user offered at most ${formatCount(rules.max_exposure, "time")}`;
  const facts: Fact[] = [
    ["Offered at", <Time at={pool.offered_at} showsUtc />],
    ["Expires", <Time at={pool.expires_at} showsUtc />],
    [
      "Pinned",
      <>
        {formatCount(pool.pool_size, "user")}, <Time at={pool.pinned_at} />
      </>,
    ],
    ["Ended", pool.ended_at ? <Time at={pool.ended_at} showsUtc /> : "Not yet"],
    ["Rules", [candidates, repeats, ...(most ? [most] : [])].join(", ")],
    ["Algorithm", `Version ${pool.algorithm_version}`],
    ["Tenant", pool.tenant],
    ["Pool", <CopyableId value={pool.id} />],
  ];
  return <FactList facts={facts} />;
}

function FindUser({ pool }: { pool: PoolDetail }) {
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (text.trim()) {
      navigate(`offers/${pool.id}/${encodeURIComponent(text.trim())}`, { tenant: pool.tenant });
    }
  };
  return (
    <form class="filter" role="search" aria-label="User" onSubmit={submit}>
      <label class="wide">
        User ID
        <input type="search" value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="buttons">
        <button type="submit">Show offers</button>
      </div>
    </form>
  );
}

function FailedUsers({ path, pool }: { path: string; pool: PoolDetail }) {
  const cursor = useRoute().query.get("cursor") ?? "";
  const { data, error, reload } = useQuery<Schemas["FailedUsers"]>([`${path}/failed`, { cursor }], {
    every: POLL_SLOW_SECONDS,
    version: pool.failed,
  });
  const page = (more: Query) => navigate.href(`offers/${pool.id}`, { tenant: pool.tenant, ...more });
  return (
    <section aria-label="Failed users">
      <h2>Failed users</h2>
      {error && !data && <ErrorNotice error={error} reload={reload} />}
      {!data ? (
        !error && <Loading subject="users" />
      ) : (
        <>
          <table class="rows">
            <thead>
              <tr>
                <th scope="col">User</th>
                <th scope="col">Shard</th>
                <th scope="col" class="count">
                  Attempts
                </th>
                <th scope="col">Error</th>
              </tr>
            </thead>
            <tbody>
              {data.users.map((one) => (
                <tr key={one.user_id}>
                  <td data-label="User">
                    <a href={navigate.href(`offers/${pool.id}/${one.user_id}`, { tenant: pool.tenant })}>
                      <code>{one.user_id}</code>
                    </a>
                  </td>
                  <td data-label="Shard">
                    <ShardName name={one.shard} />
                  </td>
                  <td data-label="Attempts" class="count">
                    {formatNumber(one.attempts)}
                  </td>
                  <td data-label="Error">{one.error}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <p class="pagination">
            {cursor && (
              <a class="button" href={page({})}>
                First
              </a>
            )}
            {data.next_cursor && (
              <a class="button" href={page({ cursor: data.next_cursor })}>
                Next
              </a>
            )}
          </p>
        </>
      )}
    </section>
  );
}

function Shards({ pool }: { pool: PoolDetail }) {
  const left = pool.shards - pool.parts.length;
  return (
    <>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Shard</th>
            <th scope="col" class="count">
              Users
            </th>
            <th scope="col" class="count">
              Attempts
            </th>
            <th scope="col">Ended</th>
            <th scope="col">Status</th>
            <th scope="col">Error</th>
          </tr>
        </thead>
        <tbody>
          {pool.parts.map((shard) => (
            <ShardRow key={shard.id} shard={shard} tenant={pool.tenant} />
          ))}
        </tbody>
      </table>
      {left > 0 && (
        <p class="muted">
          {formatCount(left, "more shard")} {left === 1 ? "is" : "are"} not shown. Failed shards and shards in progress
          are listed first.
        </p>
      )}
    </>
  );
}

function ShardRow({ shard, tenant }: { shard: Schemas["OfferShard"]; tenant: string }) {
  const seconds = shard.ended_at && shard.claimed_at ? secondsBetween(shard.claimed_at, shard.ended_at) : null;
  return (
    <tr>
      <td data-label="Shard">
        <ShardName name={shard.name} />
      </td>
      <td data-label="Users" class="count">
        {formatNumber(shard.users)}
      </td>
      <td data-label="Attempts" class="count">
        {formatNumber(shard.attempts)}
      </td>
      <td data-label="Ended">
        {shard.ended_at && <Time at={shard.ended_at} />}
        {seconds !== null && (
          <>
            {" "}
            <span class="muted nowrap">after {formatDuration(seconds)}</span>
          </>
        )}
        {shard.next_attempt_at && (
          <span class="muted">
            Next attempt at <Time at={shard.next_attempt_at} />
          </span>
        )}
      </td>
      <td data-label="Status">
        <Status status={shownState(shard.status)} />
        {shard.quarantined !== null && shard.quarantined > 0 && (
          <>
            {" "}
            <span class="muted nowrap">{formatNumber(shard.quarantined)} quarantined</span>
          </>
        )}
      </td>
      <td data-label="Error">
        {shard.error}
        {shard.dead_letter && (
          <>
            {" "}
            <a href={navigate.href(`dead-letters/${shard.dead_letter}`, { tenant })}>View dead letter</a>
          </>
        )}
      </td>
    </tr>
  );
}
