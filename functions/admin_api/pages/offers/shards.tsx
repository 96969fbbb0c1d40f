// Progress and displayed states of pools, and display names of shards.

import { formatNumber, Time } from "../ui/format";

// Returns the displayed name of a state. Tasks and shards call the same state "in-progress".
export const shownState = (state: string) => (state === "running" ? "in-progress" : state);

export function Progress({ pool }: { pool: { completed: number; user_count: number } }) {
  return (
    <>
      <progress
        value={pool.completed}
        max={Math.max(1, pool.user_count)}
        aria-label="Users with computed offers"
      ></progress>
      <span class="muted"> {formatNumber(pool.completed)}</span>
    </>
  );
}

// Formats of `name`: "3", a range of the pool; "late/TIME/0", late users; ".../failed", a shard's quarantined users.
export function ShardName({ name }: { name: string }) {
  const words = name.split("/");
  const quarantines = words.filter((word) => word === "failed").length;
  const label =
    words[0] === "late" ? (
      <>
        Joined after pinning, added <Time at={words[1]} />
      </>
    ) : (
      `Shard ${formatNumber(Number(words[0]) + 1)}`
    );
  return (
    <>
      {label}
      {quarantines > 0 && (
        <>
          {" "}
          <span class="muted">quarantined{quarantines > 1 ? ` ${quarantines} times` : ""}</span>
        </>
      )}
    </>
  );
}
