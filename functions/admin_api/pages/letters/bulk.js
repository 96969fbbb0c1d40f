// Bulk actions on selected dead letters, or on all that match the filter. Each is an operation that runs
// automatically at a rate and has its own page.

import { useEffect, useId, useState } from "preact/hooks";
import { html } from "htm/preact";
import { change } from "../api.js";
import { ACTIONS } from "./changes.js";
import { NoteDialog } from "../dialog.js";
import { Failure } from "../parts.js";
import { go } from "../place.js";
import { number, startOfDay } from "../times.js";

export const MOST_CHOSEN = 1000;
const RETRY_RATE = 50; // letters a second: other work goes on beside them
const CANARY = 5;
export const MOST_A_SECOND = 500;

// What the list looks for, as the API's bulk operations take it.
export function filterOf({ tenant, status, task_type, text, from, to, fingerprint }) {
  const all = { tenant, status, task_type, text, from_date: startOfDay(from), to_date: startOfDay(to, 1), fingerprint };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
}

export function BulkBar({ wanted, chosen, page, choose, clear, begin }) {
  if (!wanted.status.includes("pending")) {
    return null;
  }
  const all = page.length > 0 && page.every((letter) => chosen.has(letter.job_id));
  const some = !all && page.some((letter) => chosen.has(letter.job_id));
  return html`<div class="bulk" role="group" aria-label="Many letters">
    <label class="choice"><input type="checkbox" checked=${all} indeterminate=${some} disabled=${!page.length}
      onChange=${(event) => choose(page, event.target.checked)} /> All on this page</label>
    <span class="number" role="status">${chosen.size
      ? `${number(chosen.size)} chosen${chosen.size === MOST_CHOSEN ? ", more cannot be" : ""}`
      : "None chosen: for all that the filter finds"}</span>
    <div class="buttons">
      ${Object.entries(ACTIONS).map(([name, { verb }]) => html`<button type="button" onClick=${() => begin(name)}>${verb}…</button>`)}
      ${chosen.size > 0 && html`<button type="button" class="link" onClick=${clear}>Choose none</button>`}
    </div>
  </div>`;
}

// `letters`: those chosen; none of them: all that the filter finds. `of`: what these are, for people.
export function BulkDialog({ action, letters, filter, of = null, close, begun = () => {} }) {
  const { verb, needed, field, label } = ACTIONS[action];
  const [scope, setScope] = useState(letters.length ? "chosen" : "found");
  const [rate, setRate] = useState(action === "retry" ? RETRY_RATE : MOST_A_SECOND);
  const [first, setFirst] = useState(false);
  const [canary, setCanary] = useState(CANARY);
  const [found, setFound] = useState(null); // { count, sample }, or { error }
  const [round, setRound] = useState(0);
  const id = useId();
  const meant = { ...filter, status: ["pending"] };
  useEffect(() => {
    let gone = false;
    if (scope === "found") {
      setFound(null);
      change("POST", `admin/dlq/bulk-${action}`, { filter: meant, dry_run: true }).then(
        ({ data }) => gone || setFound(data),
        (error) => gone || setFound({ error }),
      );
    }
    return () => (gone = true);
  }, [scope, round]);
  const count = scope === "chosen" ? letters.length : (found?.count ?? null);
  const submit = async (note) => {
    const body = {
      ...(scope === "chosen" ? { job_ids: letters.map((letter) => letter.job_id) } : { filter: meant }),
      dry_run: false,
      rate: Number(rate),
      ...(first && action === "retry" ? { canary: Number(canary) } : {}),
      ...(note ? { [field]: note } : {}),
    };
    const { data } = await change("POST", `admin/dlq/bulk-${action}`, body);
    begun();
    go(`operations/${data.operation_id}`, { tenant: filter.tenant });
  };
  const blocked = scope === "found" && !found?.count ? (found?.count === 0 ? "No pending dead letters." : "") : null;
  return html`<${NoteDialog} title=${`${verb} ${count === null ? "many" : number(count)} dead ${count === 1 ? "letter" : "letters"}?`}
    verb=${count === null ? verb : `${verb} ${number(count)}`} label=${label} needed=${needed} blocked=${blocked} act=${submit} close=${close}>
    ${letters.length > 0 &&
    html`<fieldset>
      <legend>Which?</legend>
      <label class="choice"><input type="radio" name="scope" checked=${scope === "chosen"} onChange=${() => setScope("chosen")} />
        The ${number(letters.length)} chosen</label>
      <label class="choice"><input type="radio" name="scope" checked=${scope === "found"} onChange=${() => setScope("found")} />
        All that the filter finds and that are pending</label>
    </fieldset>`}
    ${of ? html`<p>All pending letters that died of: <b class="clip">${of}</b></p>` : !letters.length && html`<p>All that the filter finds and that are pending.</p>`}
    <div role="status">
      ${scope === "found" && (found === null
        ? html`<p class="quiet">Counting…</p>`
        : found.error
          ? html`<${Failure} error=${found.error} again=${() => setRound(round + 1)} />`
          : html`<${Sample} found=${found} />`)}
    </div>
    <div class="fields">
      <label for=${`${id}-rate`}>At most</label>
      <span><input id=${`${id}-rate`} type="number" min="1" max=${MOST_A_SECOND} required value=${rate}
        onInput=${(event) => setRate(event.target.value)} /> a second</span>
      ${action === "retry" &&
      html`<label><input type="checkbox" checked=${first} onChange=${(event) => setFirst(event.target.checked)} /> Begin with a few</label>
        <span><input type="number" min="1" max="10000" required value=${canary} disabled=${!first} aria-label="How many first"
          onInput=${(event) => setCanary(event.target.value)} /> first; the others when these have succeeded</span>`}
    </div>
  <//>`;
}

function Sample({ found }) {
  if (!found.count) {
    return null;
  }
  return html`<p><b>${number(found.count)}${found.is_exact ? "" : " and more"}</b> ${found.count === 1 ? "letter" : "letters"} as of now.
    ${found.sample.length < found.count && ` The newest ${number(found.sample.length)}:`}</p>
    <ul class="sample" tabindex="0" aria-label="Some of them">
      ${found.sample.map((letter) => {
        const error = letter.metadata.last_error;
        return html`<li><b>${letter.task_type}</b> <span class="clip">${error.message || error.type}</span></li>`;
      })}
    </ul>`;
}
