// Emails that failed DMARC: operators release or reject it, and admins set the tenant's policy.

import { useState } from "preact/hooks";
import { POLL_FAST_SECONDS, type Schemas, send, useQuery } from "../api";
import { currentSession } from "../current_session";
import { hasRole } from "../roles";
import { knownValue, navigate, type Route, useRoute } from "../router";
import { tenantOf } from "../tenant";
import {
  ErrorNotice,
  type Fact,
  FactList,
  Loading,
  Notice,
  Pagination,
  Status,
  SuccessNotice,
  useTitle,
} from "../ui/components";
import { refetchOnConflict } from "../ui/conflict";
import { NoteDialog } from "../ui/dialog";
import { Choice } from "../ui/filters";
import { Time } from "../ui/format";
import { useRowShortcuts, useShortcuts } from "../ui/shortcuts";
import { Policy } from "./policy";

type HeldMail = Schemas["HeldMail"];

type Action = keyof typeof ACTIONS;
type ListFilter = ReturnType<typeof filterFrom>;

const STATES: Record<string, string> = { held: "On hold", released: "Released", rejected: "Rejected" };
const TITLES: Record<string, string> = {
  held: "Emails on hold",
  released: "Released emails",
  rejected: "Rejected emails",
};
const ACTIONS = {
  release: {
    key: "e",
    verb: "Release",
    description: "Its attachments are processed as documents. This cannot be undone.",
    done: "was released. Its attachments are processed as documents.",
  },
  reject: {
    key: "r",
    verb: "Reject",
    description: "Its attachments are not processed. This cannot be undone.",
    done: "was rejected.",
  },
};

const ACTION_LIST = Object.entries(ACTIONS) as [Action, (typeof ACTIONS)[Action]][];

function filterFrom(route: Route) {
  const { query } = route;
  return {
    tenant: tenantOf(route, currentSession()),
    hold: knownValue(Object.keys(STATES), query.get("hold")) || "held",
    cursor: query.get("cursor") ?? "",
  };
}

// Returns the URL for a filter, without default values.
const hrefOf = ({ hold, ...others }: ListFilter) =>
  navigate.href("mail", { ...others, hold: hold === "held" ? "" : hold });

export function Mail() {
  const filter = filterFrom(useRoute());
  const [dialog, setDialog] = useState<{ action: Action; mail: HeldMail } | null>(null);
  const [notice, setNotice] = useState<{ sentence: string; at: number } | null>(null);
  const title = TITLES[filter.hold];
  useTitle(title);
  const { data, error, busy, reload } = useQuery<Schemas["HeldMailPage"]>(["admin/mail", filter], {
    every: filter.cursor ? 0 : POLL_FAST_SECONDS,
  });
  const policy = useQuery<Schemas["MailPolicy"]>(["admin/mail/policy", { tenant: filter.tenant }]);
  const done = (sentence: string, refreshed = reload) => {
    setDialog(null);
    setNotice({ sentence, at: Date.now() });
    refreshed();
  };
  return (
    <>
      <h1>{title}</h1>
      <p class="lead">
        Emails whose sender could not be verified (DMARC).
        {filter.hold === "held" && " The sender may be forged, so call the supplier before you release one."}
      </p>
      {notice && <SuccessNotice key={notice.at}>{notice.sentence}</SuccessNotice>}
      <Policy answer={policy} done={(sentence) => done(sentence, policy.reload)} />
      <form class="filter" role="search" aria-label="Emails" onSubmit={(event) => event.preventDefault()}>
        <Choice
          title="Status"
          value={filter.hold}
          options={Object.entries(STATES)}
          choose={(hold) => navigate.to(hrefOf({ ...filter, cursor: "", hold }))}
        />
      </form>
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <section aria-label="Emails" aria-busy={busy}>
          <Rows filter={filter} data={data} decide={(action, mail) => setDialog({ action, mail })} />
        </section>
      ) : (
        !error && <Loading subject="emails" />
      )}
      {dialog && <DecideDialog {...dialog} close={() => setDialog(null)} reload={reload} done={done} />}
    </>
  );
}

function Rows({
  filter,
  data,
  decide,
}: {
  filter: ListFilter;
  data: Schemas["HeldMailPage"];
  decide: (action: Action, mail: HeldMail) => void;
}) {
  const { body, focused } = useRowShortcuts("email");
  const isHeld = filter.hold === "held";
  const decides = isHeld && hasRole("operator");
  const last = decides ? "Actions" : isHeld ? null : "Decision"; // title of the last column
  useShortcuts(
    decides
      ? ACTION_LIST.map(([action, { key, verb }]) => ({
          key,
          label: `${verb} the focused email`,
          act: () => focused() >= 0 && decide(action, data.mails[focused()]),
        }))
      : [],
  );
  if (!data.mails.length) {
    return <EmptyList filter={filter} />;
  }
  return (
    <>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Received</th>
            <th scope="col">From</th>
            <th scope="col">Subject</th>
            <th scope="col">Sender check</th>
            {last && <th scope="col">{last}</th>}
          </tr>
        </thead>
        <tbody ref={body}>
          {data.mails.map((mail) => (
            <Row key={mail.id} mail={mail} tenant={data.tenant} last={last} decide={decides && decide} />
          ))}
        </tbody>
      </table>
      {isHeld && !decides && <p class="muted">Releasing or rejecting an email requires the operator role.</p>}
      <Pagination
        newest={filter.cursor && hrefOf({ ...filter, cursor: "" })}
        older={data.next_cursor && hrefOf({ ...filter, cursor: data.next_cursor })}
      />
    </>
  );
}

const senderOf = (mail: HeldMail) => mail.sender ?? "an unknown sender";

// Returns Amazon SES's SPF, DKIM and DMARC results as text. Each name stays on one line with its result.
const resultsOf = (mail: HeldMail) =>
  [
    ["SPF", mail.spf],
    ["DKIM", mail.dkim],
    ["DMARC", mail.dmarc],
  ]
    .map(([name, result]) => `${name}\u00a0${result ?? "unknown"}`)
    .join(", ");

function Row({
  mail,
  tenant,
  last,
  decide,
}: {
  mail: HeldMail;
  tenant: string;
  last: string | null;
  decide: ((action: Action, mail: HeldMail) => void) | false;
}) {
  return (
    <tr>
      <td data-label="Received">
        <Time at={mail.received_at} />
      </td>
      <td data-label="From" class="wrap-anywhere">
        {mail.sender ?? <span class="muted">Not stated</span>}
      </td>
      <td data-label="Subject" class="wrap-anywhere">
        {mail.subject ?? <span class="muted">None</span>}
      </td>
      <td data-label="Sender check">{resultsOf(mail)}</td>
      {last && (
        <td data-label={last}>
          {decide && mail.hold === "held" ? (
            <span class="buttons">
              {ACTION_LIST.map(([action, { verb }]) => (
                <button
                  type="button"
                  aria-label={`${verb} the email from ${senderOf(mail)}`}
                  onClick={() => decide(action, mail)}
                >
                  {verb}…
                </button>
              ))}
            </span>
          ) : (
            <>
              <Status status={mail.hold} label={STATES[mail.hold]} />{" "}
              <a href={navigate.href("audit", { tenant, target: mail.id })}>Audit trail</a>
            </>
          )}
        </td>
      )}
    </tr>
  );
}

function DecideDialog({
  action,
  mail,
  close,
  reload,
  done,
}: {
  action: Action;
  mail: HeldMail;
  close: () => void;
  reload: () => void;
  done: (sentence: string) => void;
}) {
  const { verb, description, done: sentence } = ACTIONS[action];
  const submit = (reason: string) =>
    refetchOnConflict(reload, async () => {
      await send("POST", `admin/mail/${mail.id}/${action}`, { reason: reason || null });
      done(`The email from ${senderOf(mail)} ${sentence}`);
    });
  const facts: Fact[] = [
    ["From", mail.sender ?? "Not stated"],
    ["Subject", mail.subject ?? "None"],
    ["Received", <Time at={mail.received_at} />],
    ["Sender check", resultsOf(mail)],
  ];
  return (
    <NoteDialog title={`${verb} this email?`} verb={verb} label="Reason" isRequired={false} act={submit} close={close}>
      <p>{description}</p>
      <FactList facts={facts} />
    </NoteDialog>
  );
}

function EmptyList({ filter }: { filter: ListFilter }) {
  if (filter.cursor) {
    return <Notice title="No more emails">There are no older emails with this status.</Notice>;
  }
  if (filter.hold === "held") {
    return <Notice title="No emails on hold">Emails that the policy puts on hold appear here automatically.</Notice>;
  }
  return <Notice title="No emails">No emails have been {filter.hold} yet.</Notice>;
}
