// A user's offers for one date, and how they were computed.

import { POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { navigate } from "../router";
import { CopyableId, ErrorNotice, type Fact, FactList, Loading, Notice, Status, useTitle } from "../ui/components";
import { formatDay, formatNumber, formatPercent, shortId, Time } from "../ui/format";
import { ShardName, shownState } from "./shards";

const MAX_SCORE = 10_000; // highest compatibility score

export function Job({ pool, user }: { pool: string; user: string }) {
  const path = `admin/offers/${encodeURIComponent(pool)}/users/${encodeURIComponent(user)}`;
  const { data: job, error, reload } = useQuery<Schemas["OfferJob"]>([path, {}], { every: POLL_FAST_SECONDS });
  const title = `Offers for user …${shortId(user)}`;
  useTitle(title);
  const back = (
    <p>
      <a href={navigate.href(`offers/${pool}`, { tenant: job?.tenant })}>All users for this date and time zone</a>
    </p>
  );
  if (!job) {
    return (
      <>
        {back}
        {error?.status === 404 ? (
          <Notice isWholePage title="No offers for this user">
            The user has no profile, or has no offers for this date and time zone.
          </Notice>
        ) : (
          <>
            <h1>{title}</h1>
            {error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="the user’s offers" />}
          </>
        )}
      </>
    );
  }
  return (
    <>
      {back}
      <h1>
        <Status status={shownState(job.status)} /> {title}
      </h1>
      <p class="muted">
        {formatDay(job.date)}, {job.timezone}
      </p>
      {error && <ErrorNotice error={error} reload={reload} />}
      {job.error && <p class="error">{job.error}</p>}
      {job.dead_letter && (
        <p>
          <a href={navigate.href(`dead-letters/${job.dead_letter}`, { tenant: job.tenant })}>
            View the shard’s dead letter
          </a>
        </p>
      )}
      <Facts job={job} />
      <section aria-label="Offered users">
        <h2>Offered users</h2>
        {job.offers.length ? (
          <Rows offers={job.offers} />
        ) : (
          <p class="muted">{job.status === "completed" ? "No eligible users." : "No offers yet."}</p>
        )}
      </section>
    </>
  );
}

function Facts({ job }: { job: Schemas["OfferJob"] }) {
  const facts: Fact[] = [
    ["User", <CopyableId value={job.user_id} />],
    ["Attempts", formatNumber(job.attempts)],
    [
      "Shard",
      <>
        <ShardName name={job.shard} />, <CopyableId value={job.shard_id} />
      </>,
    ],
    ["Tenant", job.tenant],
  ];
  if (job.started_at) {
    facts.push(["Started", <Time at={job.started_at} showsUtc />]);
  }
  if (job.completed_at) {
    facts.push(["Completed", <Time at={job.completed_at} showsUtc />]);
  }
  if (job.inputs_hash) {
    facts.push([
      "Computed with",
      <>
        Algorithm version {job.algorithm_version}, inputs <CopyableId value={job.inputs_hash} />
      </>,
    ]);
  }
  return <FactList facts={facts} />;
}

function Rows({ offers }: { offers: Schemas["Offer"][] }) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col" class="count">
            No.
          </th>
          <th scope="col">User</th>
          <th scope="col" class="count">
            Compatibility
          </th>
          <th scope="col">Expires</th>
          <th scope="col">Status</th>
        </tr>
      </thead>
      <tbody>
        {offers.map((offer, rank) => (
          <tr key={offer.id}>
            <td data-label="No." class="count">
              {rank + 1}
            </td>
            <td data-label="User">
              <code>{offer.userId}</code>
            </td>
            <td data-label="Compatibility" class="count">
              {formatPercent(offer.compatibilityScore / MAX_SCORE)}
            </td>
            <td data-label="Expires">
              <Time at={offer.expiresAt} />
            </td>
            <td data-label="Status">{offer.isWithdrawn ? <Status status="withdrawn" /> : <Status status="shown" />}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
