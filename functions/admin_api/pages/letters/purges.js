// The dialog of a purge: settled dead letters are hidden, and can be restored within a week.

import { useEffect, useId, useState } from "preact/hooks";
import { html } from "htm/preact";
import { change } from "../api.js";
import { Dialog } from "../dialog.js";
import { Status } from "../parts.js";
import { number, startOfDay } from "../times.js";

const SETTLED = ["retried", "resolved", "ignored"];

export function PurgeDialog({ tenant, close, done }) {
  const [before, setBefore] = useState("");
  const [statuses, setStatuses] = useState(["resolved", "ignored"]);
  const [plan, setPlan] = useState(null); // what the API says it would do, with its ETag, or { error }
  const [round, setRound] = useState(0); // a change repeats the request
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
      done(data.state === "done" ? `${number(data.done)} letters are hidden.` : "The letters are being hidden.");
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
      <p>They are hidden at once. For seven days this can be undone, except for their messages in SQS. Then they are deleted.</p>
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
