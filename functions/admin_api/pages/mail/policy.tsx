// The tenant's policy for emails that fail DMARC, and the dialog that changes it.

import { useState } from "preact/hooks";
import { type ApiError, type QueryResult, type Schemas, send } from "../api";
import { hasRole } from "../roles";
import { ErrorNotice } from "../ui/components";
import { Dialog } from "../ui/dialog";

type Choice = MailPolicy["dmarc_policy"];
type MailPolicy = Schemas["MailPolicy"];

const POLICIES: Record<Choice, [name: string, meaning: string]> = {
  hold: ["On hold", "An operator releases or rejects each email."],
  reject: ["Rejected", "Attachments are not processed."],
  accept: ["Accepted", "Attachments are processed like those of any other email, even if an invoice is forged."],
};
const POLICY_LIST = Object.entries(POLICIES) as [Choice, [name: string, meaning: string]][];

export function Policy({
  answer: { data, error, reload },
  done,
}: {
  answer: QueryResult<MailPolicy>;
  done: (sentence: string) => void;
}) {
  const [open, setOpen] = useState(false);
  if (!data) {
    return error && <ErrorNotice error={error} reload={reload} />;
  }
  const [name, meaning] = POLICIES[data.dmarc_policy];
  const changed = (sentence: string) => {
    setOpen(false);
    done(sentence);
  };
  return (
    <section class="policy" aria-label="Policy">
      <p>
        Policy for emails that fail DMARC: <b>{name}</b>. <span class="muted">{meaning}</span>
      </p>
      {hasRole("admin") && (
        <button type="button" onClick={() => setOpen(true)}>
          Change policy…
        </button>
      )}
      {open && <PolicyDialog policy={data} close={() => setOpen(false)} reload={reload} done={changed} />}
    </section>
  );
}

function PolicyDialog({
  policy: { tenant, dmarc_policy: shown },
  close,
  reload,
  done,
}: {
  policy: MailPolicy;
  close: () => void;
  reload: () => void;
  done: (sentence: string) => void;
}) {
  const [opened] = useState(shown);
  const [chosen, setChosen] = useState(shown);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      await send("PUT", "admin/mail/policy", { dmarc_policy: chosen, previous: shown }, { query: { tenant } });
      done(`The policy was changed to “${POLICIES[chosen][0]}”.`);
    } catch (error) {
      setFailure(error as ApiError);
      setBusy(false);
      reload(); // another user may have changed the policy
    }
  };
  return (
    <Dialog title="Change the policy" close={close} busy={busy}>
      <form onSubmit={submit}>
        <p>The policy applies to emails received from now on.</p>
        <fieldset class="policies">
          <legend>Emails that fail DMARC are</legend>
          {POLICY_LIST.map(([policy, [name, meaning]]) => (
            <label class="choice">
              <input
                type="radio"
                name="policy"
                value={policy}
                checked={chosen === policy}
                onChange={() => setChosen(policy)}
              />
              <span>
                <b>{name}</b> <span class="muted">{meaning}</span>
              </span>
            </label>
          ))}
        </fieldset>
        {shown !== opened && (
          <p class="notice conflict" role="alert">
            Someone else changed the policy to <b>{POLICIES[shown][0]}</b>.
          </p>
        )}
        {failure && (failure.status !== 409 || shown === opened) && (
          <p class="failure" role="alert">
            {failure.message}
          </p>
        )}
        <div class="buttons">
          <button class="primary" type="submit" disabled={busy || chosen === shown}>
            {busy ? "Working…" : "Change"}
          </button>
          <button type="button" disabled={busy} onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
