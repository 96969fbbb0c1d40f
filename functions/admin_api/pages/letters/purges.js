// Purges: settled dead letters are taken out of sight, and had back within a week.

import { useEffect, useId, useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, change, etagOf, LIVE_SECONDS, useAnswer } from "../api.js";
import { Dialog } from "../dialog.js";
import { Done, Failure, Notice, Pages, Status, useTitle, Waiting, Who } from "../parts.js";
import { go, usePlace } from "../place.js";
import { may } from "../roles.js";
import { tenantOf } from "../tenant.js";
import { number, startOfDay, Time } from "../times.js";

const SETTLED = ["retried", "resolved", "ignored"];

export function Purges() {
  const place = usePlace();
  const tenant = tenantOf(place, ask.session);
  const cursor = place.query.get("cursor") ?? "";
  const [open, setOpen] = useState(false);
  const [said, setSaid] = useState(null);
  useTitle("Purges");
  const { data, error, again } = useAnswer(["admin/dlq/purges", { tenant, cursor }], { every: cursor ? 0 : LIVE_SECONDS });
  const done = (sentence) => {
    setOpen(false);
    setSaid(sentence);
    again();
  };
  return html`<p><a href=${go.href("dead-letters", { tenant })}>All dead letters</a></p>
    <div class="heading">
      <div><h1>Purges</h1>
        <p class="lead">Settled letters that were taken out of sight. For a week they can be had back; then they are deleted.</p></div>
    </div>
    ${said && html`<${Done}>${said}<//>`}
    ${may("admin") && html`<p><button type="button" class="danger" onClick=${() => setOpen(true)}>Purge letters…</button></p>`}
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? data.purges.length
        ? html`<${Rows} purges=${data.purges} done=${done} />`
        : html`<${Notice} title="Nothing was purged">Settled letters go by themselves when they are old enough.<//>`
      : !error && html`<${Waiting} what="purges" />`}
    <${Pages} newest=${cursor && go.href("purges", { tenant })} older=${data?.next && go.href("purges", { tenant, cursor: data.next })} />
    ${open && html`<${PurgeDialog} tenant=${tenant} close=${() => setOpen(false)} done=${done} />`}`;
}

function stateOf(purge, now) {
  if (purge.undone_at) {
    return purge.is_complete ? "undone" : "coming back";
  }
  return !purge.is_complete ? "under way" : new Date(purge.undo_until) > now ? "purged" : "deleted";
}

function Rows({ purges, done }) {
  const now = new Date();
  return html`<table class="rows">
    <thead>
      <tr>
        <th scope="col">When</th>
        <th scope="col">Who</th>
        <th scope="col">Which</th>
        <th scope="col" class="count">Out of sight</th>
        <th scope="col">State</th>
        <th scope="col">Undo</th>
      </tr>
    </thead>
    <tbody>
      ${purges.map(
        (purge) => html`<tr key=${purge.purge_id}>
          <td data-label="When"><${Time} at=${purge.requested_at} /></td>
          <td data-label="Who"><${Who} value=${purge.requested_by} /></td>
          <td data-label="Which">${purge.statuses.join(", ")}; died before <${Time} at=${purge.died_before} /></td>
          <td data-label="Out of sight" class="count">${number(purge.hidden)}</td>
          <td data-label="State"><${Status} status=${stateOf(purge, now)} /></td>
          <td data-label="Undo">${purge.undone_at
            ? html`<span class="quiet">by <${Who} value=${purge.undone_by} />, <${Time} at=${purge.undone_at} /></span>`
            : new Date(purge.undo_until) > now && html`<${Undo} purge=${purge} done=${done} />`}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

function Undo({ purge, done }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const undo = async () => {
    setBusy(true);
    setFailure(null);
    try {
      await change("POST", `admin/dlq/purges/${purge.purge_id}/undo`, null, { etag: etagOf(purge.version) });
      done("The letters are had back.");
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };
  return html`<span class="quiet">until <${Time} at=${purge.undo_until} /></span>
    ${may("admin") && html`<button type="button" class="small" disabled=${busy} onClick=${undo}>Undo</button>`}
    ${failure && html`<span class="failure" role="alert">${failure.message}</span>`}`;
}

function PurgeDialog({ tenant, close, done }) {
  const [before, setBefore] = useState("");
  const [statuses, setStatuses] = useState(["resolved", "ignored"]);
  const [plan, setPlan] = useState(null); // what the API says it would do, with its ETag, or { error }
  const [round, setRound] = useState(0); // it is asked again when that has changed
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const id = useId();
  const before_date = startOfDay(before, 1);
  const query = { tenant, before_date, status: statuses };
  const ready = before_date !== null && statuses.length > 0;
  useEffect(() => {
    let gone = false;
    setPlan(null);
    if (ready) {
      change("DELETE", "admin/dlq/purge", null, { query }).then(
        ({ data, etag }) => gone || setPlan({ ...data, etag }),
        (error) => gone || setPlan({ error }),
      );
    }
    return () => (gone = true);
  }, [before, statuses.join(), round]);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      const wanted = { query: { ...query, confirm: typed }, etag: plan.etag };
      const { data } = await change("DELETE", "admin/dlq/purge", null, wanted);
      done(data.is_complete ? `${number(data.hidden)} letters are out of sight.` : "The letters go out of sight by and by.");
    } catch (error) {
      setFailure(error);
      setBusy(false);
      if (error.status === 412) {
        setRound(round + 1);
      }
    }
  };
  const turn = (status) => (event) =>
    setStatuses(SETTLED.filter((one) => (one === status ? event.target.checked : statuses.includes(one))));
  return html`<${Dialog} title="Purge settled letters" close=${close} busy=${busy}>
    <form onSubmit=${submit}>
      <p>They go out of sight at once. For seven days this can be undone, but for their messages in SQS; then they are deleted.</p>
      <label for=${`${id}-before`}>Died on this day or before</label>
      <input id=${`${id}-before`} type="date" required value=${before} onInput=${(event) => setBefore(event.target.value)} />
      <fieldset>
        <legend>In which state?</legend>
        ${SETTLED.map((status) => html`<label class="choice"><input type="checkbox" checked=${statuses.includes(status)} onChange=${turn(status)} />
          <${Status} status=${status} /></label>`)}
      </fieldset>
      <div role="status">
        ${ready && (plan === null
          ? html`<p class="quiet">Counting…</p>`
          : plan.error
            ? html`<p class="failure">${plan.error.message}</p>`
            : html`<p><b>${number(plan.count)}</b> ${plan.count === 1 ? "letter" : "letters"} of ${plan.tenant} would go.</p>`)}
      </div>
      ${plan?.count > 0 &&
      html`<label for=${`${id}-slug`}>Type <code>${plan.confirm}</code> to confirm</label>
        <input id=${`${id}-slug`} value=${typed} autocomplete="off" spellcheck=${false} autocapitalize="off"
          onInput=${(event) => setTyped(event.target.value)} />`}
      ${failure && html`<p class="failure" role="alert">${failure.message}</p>`}
      <div class="buttons">
        <button class="danger" type="submit" disabled=${busy || !plan?.count || typed !== plan.confirm}>${busy ? "Wait…" : "Purge"}</button>
        <button type="button" disabled=${busy} onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}
