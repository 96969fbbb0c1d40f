// Dialogs for decisions: merge or split clusters, accept or dispute a variance.

import { useEffect, useState } from "preact/hooks";
import { type ApiError, type Schemas, send } from "../api";
import { currentSession } from "../current_session";
import { documentTitle, type NamedDocument } from "../documents/summary";
import { refetchOnConflict } from "../ui/conflict";
import { NoteDialog } from "../ui/dialog";
import { Time } from "../ui/format";
import { UserName } from "../ui/user_name";

type DecisionProps = { done: () => void; close: () => void; reload: () => void };

type EarlierDecision = { id: number; verdict: string; by: string; at: string };

// Tracks the decisions that a new one supersedes: known decisions and, after a conflict, another reviewer's.
// `button`: label of the button for the new decision. `notice`: sentences about the superseded decisions.
export function useSuperseded(button: string, verdict: string, known: EarlierDecision[] = []) {
  const [first] = useState(known);
  const [found, setFound] = useState<EarlierDecision[]>([]);
  const note = ({ decision }: ApiError) => {
    if (!decision) {
      return;
    }
    const isOwn = decision.by === currentSession().claims.sub;
    if (decision.verdict === verdict) {
      throw new Error(`${isOwn ? "You" : "Someone else"} already ${verdict} this. No change is needed.`);
    }
    setFound((others) => [...others, decision]);
    const conflict = isOwn
      ? "You already decided this. Check your decision"
      : "Someone else decided this first. Check their decision";
    throw new Error(`${conflict}, then ${button.toLowerCase()} anyway or cancel.`);
  };
  const decisions = [...first, ...found];
  return {
    ids: decisions.map(({ id }) => id),
    note,
    button: found.length ? `${button} anyway` : button,
    notice: decisions.map(({ verdict, by, at }) => (
      <p class="muted">
        Replaces an earlier decision: <UserName value={by} /> {verdict} this on <Time at={at} />.
      </p>
    )),
  };
}

// Notice about the last decision, shown on the next page.
let nextNotice: { sentence: string; href: string } | null = null;

export function announceNext(sentence: string, href: string) {
  nextNotice = { sentence, href };
}

// Notice about the decision made on the previous page, with a link to change it.
export function DecisionNotice() {
  const [last] = useState(() => nextNotice);
  useEffect(() => {
    nextNotice = null;
  }, []);
  return (
    <div role="status">
      {last && (
        <p class="decision-notice">
          {last.sentence} <a href={last.href}>View or change the decision</a>
        </p>
      )}
    </div>
  );
}

// Dialog that links two documents, regardless of automatic matching.
export function MergeDialog({ doc, done, close, reload }: DecisionProps & { doc: NamedDocument }) {
  const [other, setOther] = useState("");
  const [exact, setExact] = useState(false);
  const superseded = useSuperseded("Merge", "confirmed");
  const submit = (reason: string) =>
    refetchOnConflict(
      reload,
      async () => {
        const documents = [doc.id, other.trim()];
        await send("POST", "admin/reviews/merge", {
          documents,
          exact,
          reason: reason || null,
          overrides: superseded.ids,
        });
        done();
      },
      superseded.note,
    );
  return (
    <NoteDialog
      title="Merge with another document"
      verb={superseded.button}
      label="Reason"
      isRequired={false}
      act={submit}
      close={close}
    >
      <p>
        The cluster that contains {documentTitle(doc)} is merged with another document’s cluster, regardless of
        automatic matching.
      </p>
      <label class="field">
        ID of the other document
        <input
          class="full-width"
          required
          pattern="\s*[0-9a-fA-F\-]{36}\s*"
          title="The complete ID. Copy it from the document’s page."
          value={other}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setOther(event.currentTarget.value)}
        />
      </label>
      <p>
        <label class="choice">
          <input type="checkbox" checked={exact} onChange={(event) => setExact(event.currentTarget.checked)} />
          Link exactly these two documents, not the best-matching pair from the two clusters
        </label>
      </p>
      {superseded.notice}
    </NoteDialog>
  );
}

// Dialog that removes a document from its cluster.
export function SplitDialog({ doc, done, close, reload }: DecisionProps & { doc: NamedDocument }) {
  const superseded = useSuperseded("Remove", "rejected");
  const submit = (reason: string) =>
    refetchOnConflict(
      reload,
      async () => {
        await send("POST", "admin/reviews/split", {
          document: doc.id,
          reason: reason || null,
          overrides: superseded.ids,
        });
        done();
      },
      superseded.note,
    );
  return (
    <NoteDialog
      title="Remove from the cluster"
      verb={superseded.button}
      label="Reason"
      isRequired={false}
      act={submit}
      close={close}
    >
      <p>
        {documentTitle(doc)} is removed from its cluster. All of its matches there are rejected until a reviewer changes
        this decision.
      </p>
      {superseded.notice}
    </NoteDialog>
  );
}

// Dialog that accepts or disputes a cluster's variance.
export function DifferenceDialog({
  cluster,
  variance,
  verdict,
  done,
  close,
  reload,
}: DecisionProps & { cluster: string; variance: Schemas["ClusterVariance"]; verdict: "accept" | "dispute" }) {
  const accepts = verdict === "accept";
  const { document, code, line, expected, actual } = variance;
  const superseded = useSuperseded(accepts ? "Accept" : "Dispute", accepts ? "accepted" : "disputed");
  const submit = (reason: string) =>
    refetchOnConflict(
      reload,
      async () => {
        await send("POST", `admin/variances/${verdict}`, {
          cluster,
          document,
          code,
          line,
          expected,
          actual,
          reason: reason || null,
          overrides: superseded.ids,
        });
        done();
      },
      superseded.note,
    );
  return (
    <NoteDialog
      title={accepts ? "Accept this difference" : "Dispute this difference"}
      verb={superseded.button}
      label="Reason"
      isRequired={false}
      act={submit}
      close={close}
    >
      <p>{variance.message}</p>
      <p class="muted">
        {accepts
          ? "The difference needs no further action."
          : "The difference stays open, even if it is within tolerance."}{" "}
        Your name is stored with the decision.
      </p>
      {superseded.notice}
    </NoteDialog>
  );
}
