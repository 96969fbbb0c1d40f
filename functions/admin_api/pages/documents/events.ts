// Titles of the events in a document's history.

import type { Schemas } from "../api";

type DocumentEvent = Schemas["DocumentEvent"];

// Work by worker.
const WORK: Record<string, string> = {
  acquisition: "File intake",
  ingestion: "Extraction",
  matching: "Matching",
  diagnostics: "Comparison",
  document_output: "Result delivery",
};
const OUTCOMES: Record<string, string> = { retry: "failed, will be retried", worker_lost: "worker stopped" };
const ARRIVALS: Record<string, string> = { duplicate: "Duplicate received" };
const QUESTIONS: Record<string, string> = { judged: "Candidates judged", read: "Text extracted" };
const REVIEWS: Record<string, string> = {
  opened: "Review opened",
  changed: "Candidates for review changed",
  decided: "Review completed",
  resolved: "Review no longer needed",
};
const DECISIONS: Record<string, string> = {
  confirmed: "Match confirmed",
  rejected: "Match rejected",
  accepted: "Difference accepted",
  disputed: "Difference disputed",
};
const DECIDED_BY: Record<string, string> = { rules: "rules", llm: "the language model", reviewer: "a reviewer" };

// Returns an event as a short phrase, which the title of another document may follow.
export function eventTitle({ kind, outcome, actor, attempt }: DocumentEvent): string {
  const work = WORK[actor] ?? actor;
  const plain = outcome.replace(/[_-]/g, " ");
  switch (kind) {
    case "arrival":
      return ARRIVALS[outcome] ?? "File received";
    case "work":
      return `${work} queued`;
    case "attempt":
      return `${work}, attempt ${attempt}: ${OUTCOMES[outcome] ?? plain}`;
    case "running":
      return `${work} in progress`;
    case "scheduled":
      return `${work} scheduled`;
    case "dead_letter":
      return `Dead letter ${plain}`;
    case "question":
      return QUESTIONS[outcome] ?? "Language model called";
    case "link":
      return "Matched with";
    case "review":
      return REVIEWS[outcome] ?? `Review ${plain}`;
    case "decision":
      return DECISIONS[outcome] ?? `Decision: ${plain}`;
    case "result":
      return outcome === "delivered" ? "Result delivered" : `${work}: ${plain}`;
  }
}

// Returns who matched two documents, or null for other events.
export const matchedBy = ({ kind, actor }: DocumentEvent) => (kind === "link" ? (DECIDED_BY[actor] ?? actor) : null);

// Returns whether a user, a model or an operator's command caused the event, and not a worker that its title names.
export const showsActor = ({ kind }: DocumentEvent) => ["decision", "dead_letter", "question"].includes(kind);
