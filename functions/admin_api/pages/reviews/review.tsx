// One document with ambiguous matches, next to its candidates and their evidence.

import { useState } from "preact/hooks";
import { POLL_FAST_SECONDS, type Schemas, send, useQuery } from "../api";
import { DocumentFacts, DocumentLink, documentName, documentTitle } from "../documents/summary";
import { hasRole } from "../roles";
import { navigate, useRoute } from "../router";
import { ErrorNotice, Loading, Notice, Status, useTitle } from "../ui/components";
import { refetchOnConflict } from "../ui/conflict";
import { NoteDialog } from "../ui/dialog";
import { barSpan, EvidenceList, MatchScore, type Span } from "../ui/evidence";
import { formatDay, formatPercent, formatTotal, Time, toLabel } from "../ui/format";
import { useShortcuts } from "../ui/shortcuts";
import { UserName } from "../ui/user_name";
import { announceNext, DecisionNotice, MergeDialog, useSuperseded } from "./decisions";
import { type AmbiguousMatch, queueFilter, queueUrl, type ReviewFilter, STATES } from "./reviews";

type ReviewDetail = Omit<Schemas["Review"], "ambiguous_matches"> & { ambiguous_matches: AmbiguousMatch[] };
type Candidate = Schemas["Candidate"];
type ReviewDocument = Schemas["ReviewDocument"];
type Decision = Schemas["Decision"];
type Begin = (act: Verb, others: ReviewDocument[]) => void;
type Verb = keyof typeof VERBS;

const QUEUE_SHOWN = 100;
const MAX_SHORTCUTS = 9; // for candidates
const VERBS = { confirm: ["Confirm", "confirmed"], reject: ["Reject", "rejected"] };
const ACTS: Record<string, Verb> = { confirmed: "confirm", rejected: "reject" };

// Returns the previous and next documents in the queue, and this document's position.
function useNeighbors(queue: ReviewFilter, id: string) {
  const { data } = useQuery<Schemas["ReviewPage"]>(["admin/reviews", { ...queue, cursor: "", limit: QUEUE_SHOWN }]);
  const ids = (data?.reviews ?? []).map((review) => review.id);
  const at = ids.indexOf(id);
  return {
    next: at < 0 ? ids[0] : ids[at + 1],
    previous: at > 0 ? ids[at - 1] : undefined,
    where: at < 0 ? null : `${at + 1} of ${data?.next_cursor ? `more than ${ids.length}` : ids.length}`,
  };
}

export function Review({ id }: { id: string }) {
  const queue = { ...queueFilter(useRoute()), cursor: "" };
  const path = `admin/reviews/${encodeURIComponent(id)}`;
  const { data: review, error, reload } = useQuery<ReviewDetail>([path, {}], { every: POLL_FAST_SECONDS });
  const neighbors = useNeighbors(queue, id);
  const to = (other: string | undefined) => other && navigate.to(queueUrl(queue, `reviews/${other}`));
  useShortcuts([
    { key: "j", label: "Next document", act: () => to(neighbors.next) },
    { key: "k", label: "Previous document", act: () => to(neighbors.previous) },
    { key: "u", label: "Back to the queue", act: () => navigate.to(queueUrl(queue)) },
  ]);
  useTitle(review ? `${documentTitle(review.document)} · Review` : "Review");
  const navigation = <QueueNavigation queue={queue} neighbors={neighbors} />;
  if (!review) {
    return (
      <>
        {navigation}
        {error?.status === 404 ? (
          <Notice isWholePage title="Document not found in the review queue">
            It does not exist, or it belongs to a tenant that you cannot access.
          </Notice>
        ) : (
          <>
            <h1>Review</h1>
            {error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="the document" />}
          </>
        )}
      </>
    );
  }
  const onDecided = (sentence: string) => {
    announceNext(sentence, queueUrl(queue, `reviews/${id}`));
    navigate.to(neighbors.next ? queueUrl(queue, `reviews/${neighbors.next}`) : queueUrl(queue));
  };
  return (
    <>
      {navigation}
      <DecisionNotice />
      {error && <ErrorNotice error={error} reload={reload} />}
      <h1>
        <Status status={review.state} label={STATES[review.state]} /> {documentTitle(review.document)}
      </h1>
      <p class="muted">
        Review opened on <Time at={review.opened_at} showsUtc />
      </p>
      <Question review={review} onDecided={onDecided} reload={reload} />
      <Decisions review={review} />
    </>
  );
}

function QueueNavigation({ queue, neighbors }: { queue: ReviewFilter; neighbors: ReturnType<typeof useNeighbors> }) {
  const link = (id: string | undefined, text: string) => id && <a href={queueUrl(queue, `reviews/${id}`)}>{text}</a>;
  return (
    <nav class="queue-navigation" aria-label="Queue">
      <a href={queueUrl(queue)}>Review queue</a>
      {neighbors.where && <span class="muted">{neighbors.where}</span>}
      {link(neighbors.previous, "Previous")} {link(neighbors.next, "Next")}
    </nav>
  );
}

function Question({
  review,
  onDecided,
  reload,
}: {
  review: ReviewDetail;
  onDecided: (sentence: string) => void;
  reload: () => void;
}) {
  const candidates = review.ambiguous_matches.flatMap((ambiguous) => ambiguous.candidates);
  const [chosen, setChosen] = useState(0);
  const [dialog, setDialog] = useState<{ act: "merge" } | { act: Verb; others: ReviewDocument[] } | null>(null);
  const isOpen = review.state === "open";
  const at = isOpen ? Math.min(chosen, candidates.length - 1) : -1; // selected candidate
  const canDecide = hasRole("operator");
  const begin: Begin = (act, others) => others.length && setDialog({ act, others });
  const documents = candidates.map((candidate) => candidate.document);
  const selected = documents.filter((_, place) => place === at);
  const decided = decidedDocuments(review, documents);
  const choices = candidates.slice(0, MAX_SHORTCUTS).map((candidate, place) => ({
    key: String(place + 1),
    label: `Select ${documentTitle(candidate.document)}`,
    act: () => setChosen(place),
  }));
  const deciding = [
    { key: "c", label: "Confirm the selected candidate", act: () => begin("confirm", selected) },
    { key: "r", label: "Reject the selected candidate", act: () => begin("reject", selected) },
    { key: "a", label: "Reject all candidates", act: () => begin("reject", documents) },
  ];
  const merging = { key: "m", label: "Merge with another document", act: () => setDialog({ act: "merge" }) };
  useShortcuts([...(isOpen ? choices : []), ...(isOpen && canDecide ? deciding : []), ...(canDecide ? [merging] : [])]);
  const close = () => setDialog(null);
  let number = 0;
  return (
    <>
      {(review.ambiguous_matches.length ? review.ambiguous_matches : [NO_CANDIDATES]).map((ambiguous, place) => (
        <section class="ambiguous-match" aria-label="Possible matches">
          {isOpen && (
            <p class="review-reason">
              {[ambiguous.reason || reasonOf(ambiguous), ambiguous.llm_skip_reason].filter(Boolean).join(" ")}
            </p>
          )}
          <div class="side-by-side">
            <article class="card">
              <h2>
                <span class="card-label">Document under review</span>{" "}
                <DocumentLink doc={review.document} tenant={review.tenant} />
              </h2>
              <DocumentFacts doc={review.document} />
            </article>
            {place === 0 &&
              decided.map((decision) => (
                <DecidedCard
                  key={decision.document.id}
                  decision={decision}
                  review={review}
                  begin={begin}
                  canDecide={canDecide}
                />
              ))}
            {ambiguous.candidates.map((candidate) => {
              const ownNumber = number++;
              return (
                <CandidateCard
                  key={candidate.document.id}
                  candidate={candidate}
                  number={ownNumber}
                  review={review}
                  span={barSpan(ambiguous.candidates.map((one) => one.evidence))}
                  isChosen={ownNumber === at}
                  choose={() => setChosen(ownNumber)}
                  begin={begin}
                  canDecide={canDecide}
                />
              );
            })}
          </div>
          {ambiguous.other_candidates && ambiguous.other_candidates.length > 0 && (
            <p class="muted">
              {ambiguous.other_candidates.length === 1
                ? "1 weaker candidate is not shown."
                : `${ambiguous.other_candidates.length} weaker candidates are not shown.`}
            </p>
          )}
        </section>
      ))}
      {canDecide ? (
        <p class="buttons">
          {isOpen && candidates.length > 1 && (
            <button type="button" onClick={() => begin("reject", documents)}>
              Reject all…
            </button>
          )}
          <button type="button" onClick={() => setDialog({ act: "merge" })}>
            Merge with another document…
          </button>
        </p>
      ) : (
        <p class="muted">Confirming or rejecting a match requires the operator role.</p>
      )}
      {dialog?.act === "merge" ? (
        <MergeDialog
          doc={review.document}
          close={close}
          reload={reload}
          done={() => {
            close();
            onDecided(`${documentTitle(review.document)} was merged.`);
          }}
        />
      ) : (
        dialog && (
          <DecideDialog
            decision={dialog}
            review={review}
            close={close}
            reload={reload}
            done={(sentence) => {
              close();
              onDecided(sentence);
            }}
          />
        )
      )}
    </>
  );
}

const reasonOf = (ambiguous: AmbiguousMatch) =>
  ambiguous.number
    ? `This document references number ${ambiguous.number}, but the document with that number may be the wrong one.`
    : "The best candidate is uncertain.";

const NO_CANDIDATES: AmbiguousMatch = { candidates: [] };

// Returns the latest decisions about documents that are not candidates. Later decisions replace earlier ones.
const decidedDocuments = (review: ReviewDetail, candidates: ReviewDocument[]) =>
  [...new Map(review.decisions.map((one) => [one.document.id, one])).values()].filter(
    ({ document }) => !candidates.some((candidate) => candidate.id === document.id),
  );

function Verdict({ decision: { verdict, by, at } }: { decision: Decision }) {
  return (
    <>
      <Status status={verdict} />{" "}
      <span class="muted">
        by <UserName value={by} />, <Time at={at} />
      </span>
    </>
  );
}

// Buttons for the decisions about a document, except `last`, the latest one.
function DecisionButtons({
  doc,
  last,
  isPrimary = false,
  begin,
}: {
  doc: ReviewDocument;
  last: Decision | null;
  isPrimary?: boolean;
  begin: Begin;
}) {
  const acts = (Object.keys(VERBS) as Verb[]).filter((act) => act !== ACTS[last?.verdict ?? ""]);
  return (
    <p class="buttons">
      {acts.map((act) => (
        <button type="button" class={isPrimary && act === "confirm" ? "primary" : ""} onClick={() => begin(act, [doc])}>
          {VERBS[act][0]}…
        </button>
      ))}
    </p>
  );
}

// A document about which a reviewer decided. The decision can be changed.
function DecidedCard({
  decision,
  review,
  begin,
  canDecide,
}: {
  decision: Decision;
  review: ReviewDetail;
  begin: Begin;
  canDecide: boolean;
}) {
  const { document: doc } = decision;
  return (
    <article class="card">
      <h2>
        <span class="card-label">
          <Verdict decision={decision} />
        </span>{" "}
        <DocumentLink doc={doc} tenant={review.tenant} />
      </h2>
      {doc.type && (
        <>
          <DocumentFacts doc={doc} comparedWith={review.document} />
          {canDecide && <DecisionButtons doc={doc} last={decision} begin={begin} />}
        </>
      )}
    </article>
  );
}

function CandidateCard({
  candidate,
  number,
  review,
  span,
  isChosen,
  choose,
  begin,
  canDecide,
}: {
  candidate: Candidate;
  number: number;
  review: ReviewDetail;
  span: Span;
  isChosen: boolean;
  choose: () => void;
  begin: Begin;
  canDecide: boolean;
}) {
  const doc = candidate.document;
  const last = lastDecision(review, doc.id);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keys 1 to 9 select candidates.
    <article class="card" aria-current={isChosen ? "true" : undefined} onFocusIn={choose} onClick={choose}>
      <h2>
        {review.state === "open" ? <kbd>{number + 1}</kbd> : <span class="card-label">Candidate</span>}{" "}
        <DocumentLink doc={doc} tenant={review.tenant} />
        <span class="probability">{formatPercent(candidate.probability)} match</span>
      </h2>
      <DocumentFacts doc={doc} comparedWith={review.document} />
      <EvidenceList evidence={candidate.evidence} />
      <MatchScore match={candidate} span={span} caption={`Evidence for ${documentTitle(doc)}`} />
      {last && (
        <p>
          <Verdict decision={last} />
        </p>
      )}
      {canDecide && <DecisionButtons doc={doc} last={last} isPrimary={isChosen} begin={begin} />}
    </article>
  );
}

// Returns the last decision about the document under review and another document, or null.
const lastDecision = (review: ReviewDetail, other: string) =>
  review.decisions.findLast((one) => one.document.id === other) ?? null;

function DecideDialog({
  decision,
  review,
  done,
  close,
  reload,
}: {
  decision: { act: Verb; others: ReviewDocument[] };
  review: ReviewDetail;
  done: (sentence: string) => void;
  close: () => void;
  reload: () => void;
}) {
  const { act, others } = decision;
  const [verb, was] = VERBS[act];
  const before = others.map((one) => lastDecision(review, one.id)).filter((one) => one !== null);
  const superseded = useSuperseded(verb, was, before);
  const names = others.map((one) => documentName(one)).join(", ");
  const described = others.map((one) => documentName(one, formatDay(one.date), formatTotal(one.total))).join(" or ");
  const fields = act === "confirm" ? { document: others[0].id } : { documents: others.map((one) => one.id) };
  const submit = (reason: string) =>
    refetchOnConflict(
      reload,
      async () => {
        await send("POST", `admin/reviews/${review.id}/${act}`, {
          ...fields,
          reason: reason || null,
          overrides: superseded.ids,
        });
        done(`${documentTitle(review.document)}: ${was} the match with ${names}.`);
      },
      superseded.note,
    );
  return (
    <NoteDialog
      title={act === "confirm" ? "Confirm the match" : "Reject the match"}
      verb={superseded.button}
      label="Reason"
      isRequired={false}
      act={submit}
      close={close}
    >
      <p>
        {documentTitle(review.document)} {act === "confirm" ? "matches" : "does not match"} {described}.
      </p>
      {superseded.notice}
      <p class="muted">The decision applies until a reviewer changes it. Your name is stored with it.</p>
    </NoteDialog>
  );
}

function Decisions({ review }: { review: ReviewDetail }) {
  if (!review.decisions.length) {
    return null;
  }
  return (
    <section aria-labelledby="decisions">
      <h2 id="decisions">Decisions</h2>
      <ol class="timeline">
        {[...review.decisions].reverse().map((one) => {
          return (
            <li>
              <p>
                <b>
                  {toLabel(one.verdict)}: {documentName(one.document, formatDay(one.document.date))}
                </b>{" "}
                <span class="muted">
                  by <UserName value={one.by} />, <Time at={one.at} />
                </span>
              </p>
              {one.reason && <p>{one.reason}</p>}
            </li>
          );
        })}
      </ol>
      {review.state === "decided" && hasRole("operator") && (
        <p class="muted">To change a decision, make a new one above. The latest decision applies.</p>
      )}
    </section>
  );
}
