// Purge: hides closed dead letters, which can be restored for 7 days.

import type { ComponentChildren, TargetedEvent } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { ApiError, type Schemas, send } from "../api";
import { navigate } from "../router";
import { Status } from "../ui/components";
import { Dialog } from "../ui/dialog";
import { formatCount, startOfDay } from "../ui/format";

// Preview of a purge, with the ETag that confirms it.
type Plan = Schemas["PurgePlan"] & { etag: string | null };
type Closed = (typeof CLOSED_STATUSES)[number];

const CLOSED_STATUSES = ["retried", "resolved", "ignored"] as const;

export function PurgeDialog({
  tenant,
  close,
  done,
}: {
  tenant: string | null;
  close: () => void;
  done: (notice: ComponentChildren) => void;
}) {
  const [before, setBefore] = useState("");
  const [statuses, setStatuses] = useState<Closed[]>(["resolved", "ignored"]);
  const [plan, setPlan] = useState<Plan | { error: Error } | null>(null);
  const [round, setRound] = useState(0); // incremented to repeat the request
  const [confirmation, setConfirmation] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Error | null>(null);
  const id = useId();
  const before_date = startOfDay(before, 1);
  const query = { tenant, before_date, status: statuses };
  const ready = before_date !== null && statuses.length > 0;
  useEffect(() => {
    let gone = false;
    setPlan(null);
    if (ready) {
      send<Schemas["PurgePlan"]>("DELETE", "admin/dlq/purge", null, { query }).then(
        ({ data, etag }) => gone || setPlan({ ...data, etag }),
        (error) => gone || setPlan({ error }),
      );
    }
    return () => {
      gone = true;
    };
  }, [before, statuses.join(), round]);
  const counted = plan && !("error" in plan) ? plan : null;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      const options = { query: { ...query, confirm: confirmation }, etag: counted?.etag };
      const { data } = await send<Schemas["OperationProgress"]>("DELETE", "admin/dlq/purge", null, options);
      const count = formatCount(data.succeeded, "dead letter");
      done(
        <>
          {data.state !== "done"
            ? "The dead letters are being purged."
            : `${count} ${data.succeeded === 1 ? "was" : "were"} purged.`}{" "}
          You can undo this for 7 days.{" "}
          <a href={navigate.href(`operations/${data.operation_id}`, { tenant })}>View the purge</a>
        </>,
      );
    } catch (error) {
      setFailure(error as Error);
      setBusy(false);
      if (error instanceof ApiError && error.status === 412) {
        setRound(round + 1);
      }
    }
  };
  const toggle = (status: Closed) => (event: TargetedEvent<HTMLInputElement>) =>
    setStatuses(
      CLOSED_STATUSES.filter((one) => (one === status ? event.currentTarget.checked : statuses.includes(one))),
    );
  return (
    <Dialog title="Purge closed dead letters" close={close} busy={busy}>
      <form onSubmit={submit}>
        <p>Purged dead letters are hidden immediately and deleted after 7 days. Until then, the purge can be undone.</p>
        <label for={`${id}-before`}>Failed on or before</label>
        <input
          id={`${id}-before`}
          type="date"
          required
          value={before}
          onInput={(event) => setBefore(event.currentTarget.value)}
        />
        <fieldset>
          <legend>Status</legend>
          {CLOSED_STATUSES.map((status) => (
            <label class="choice">
              <input type="checkbox" checked={statuses.includes(status)} onChange={toggle(status)} />
              <Status status={status} />
            </label>
          ))}
        </fieldset>
        <div role="status">
          {ready &&
            (plan === null ? (
              <p class="muted">Counting…</p>
            ) : "error" in plan ? (
              <p class="failure">{plan.error.message}</p>
            ) : (
              <p>
                <b>{formatCount(plan.count, "dead letter")}</b> in the tenant {plan.tenant} would be purged.
              </p>
            ))}
        </div>
        {counted && counted.count > 0 && (
          <>
            <label for={`${id}-slug`}>
              Type <code>{counted.confirm}</code> to confirm
            </label>
            <input
              id={`${id}-slug`}
              value={confirmation}
              autocomplete="off"
              spellcheck={false}
              autocapitalize="off"
              onInput={(event) => setConfirmation(event.currentTarget.value)}
            />
          </>
        )}
        {failure && (
          <p class="failure" role="alert">
            {failure.message}
          </p>
        )}
        <div class="buttons">
          <button class="danger" type="submit" disabled={busy || !counted?.count || confirmation !== counted.confirm}>
            {busy ? "Working…" : "Purge"}
          </button>
          <button type="button" disabled={busy} onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
