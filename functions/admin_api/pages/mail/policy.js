// The tenant's policy for mail that fails DMARC, and the dialog in which an admin changes it.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { change } from "../api.js";
import { Dialog } from "../dialog.js";
import { Failure } from "../parts.js";
import { may } from "../roles.js";

const POLICIES = {
  hold: ["On hold", "An operator releases or rejects each mail."],
  reject: ["Rejected", "Nothing is taken from it."],
  accept: ["Accepted", "It is acquired like other mail, so forged invoices can get in."],
};

// `answer`: that of `useAnswer` for the policy.
export function Policy({ answer: { data, error, again }, done }) {
  const [open, setOpen] = useState(false);
  if (!data) {
    return error && html`<${Failure} error=${error} again=${again} />`;
  }
  const [name, meaning] = POLICIES[data.dmarc_policy];
  const changed = (sentence) => {
    setOpen(false);
    done(sentence);
  };
  return html`<section class="policy" aria-label="Policy">
    <p>Mail that fails DMARC is: <b>${name}</b>. <span class="quiet">${meaning}</span></p>
    ${may("admin") && html`<button type="button" onClick=${() => setOpen(true)}>Change policy…</button>`}
    ${open && html`<${PolicyDialog} policy=${data} close=${() => setOpen(false)} again=${again} done=${changed} />`}
  </section>`;
}

function PolicyDialog({ policy: { tenant, dmarc_policy: shown }, close, again, done }) {
  const [opened] = useState(shown);
  const [chosen, setChosen] = useState(shown);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      await change("PUT", "admin/mail/policy", { dmarc_policy: chosen, previous: shown }, { query: { tenant } });
      done(`The policy is changed: ${POLICIES[chosen][0].toLowerCase()}.`);
    } catch (error) {
      setFailure(error);
      setBusy(false);
      again(); // someone else may have changed it
    }
  };
  return html`<${Dialog} title="Change the policy" close=${close} busy=${busy}>
    <form onSubmit=${submit}>
      <p>It applies to mail that is received from now on.</p>
      <fieldset class="policies">
        <legend>Mail that fails DMARC is</legend>
        ${Object.entries(POLICIES).map(
          ([policy, [name, meaning]]) => html`<label class="choice">
            <input type="radio" name="policy" value=${policy} checked=${chosen === policy} onChange=${() => setChosen(policy)} />
            <span><b>${name}</b> <span class="quiet">${meaning}</span></span>
          </label>`,
        )}
      </fieldset>
      ${shown !== opened && html`<p class="notice meanwhile" role="alert">Someone else changed the policy. It is now: <b>${POLICIES[shown][0]}</b>.</p>`}
      ${failure && (failure.status !== 409 || shown === opened) && html`<p class="failure" role="alert">${failure.message}</p>`}
      <div class="buttons">
        <button class="main" type="submit" disabled=${busy || chosen === shown}>${busy ? "Wait…" : "Change"}</button>
        <button type="button" disabled=${busy} onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}
