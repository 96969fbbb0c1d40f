// Dialogs for decisions: merge or split clusters, accept or dispute a variance.

import { useEffect, useState } from "preact/hooks";
import { type Schemas, send } from "../api";
import { documentTitle, type NamedDocument } from "../documents/summary";
import { refetchOnConflict } from "../ui/conflict";
import { NoteDialog } from "../ui/dialog";

type DecisionProps = { done: () => void; close: () => void; reload: () => void };

// Tracks the ids of decisions that a new one supersedes: known decisions and, after a conflict, another reviewer's.
export function useSuperseded(known: number[] = []) {
  const [ids, setIds] = useState(known);
  const [before] = useState(known.length);
  const note = (error: Error) => {
    const found = /\(decision (\d+)\)/.exec(error.message);
    if (found) {
      setIds((others) => [...others, Number(found[1])]);
    }
  };
  return { ids, note, isNew: ids.length > before };
}

export const overrideLabel = (verb: string, { isNew }: { isNew: boolean }) => (isNew ? `${verb} anyway` : verb);

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
  const superseded = useSuperseded();
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
      verb={overrideLabel("Merge", superseded)}
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
    </NoteDialog>
  );
}

// Dialog that removes a document from its cluster.
export function SplitDialog({ doc, done, close, reload }: DecisionProps & { doc: NamedDocument }) {
  const superseded = useSuperseded();
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
      verb={overrideLabel("Remove", superseded)}
      label="Reason"
      isRequired={false}
      act={submit}
      close={close}
    >
      <p>
        {documentTitle(doc)} is removed from its cluster. All of its matches there are rejected until a reviewer changes
        this decision.
      </p>
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
  const superseded = useSuperseded();
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
      verb={overrideLabel(accepts ? "Accept" : "Dispute", superseded)}
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
    </NoteDialog>
  );
}
