// A document's progress by stage.

import type { Schemas } from "../api";
import { Status } from "../ui/components";
import type { Option } from "../ui/filters";

type Stage = Schemas["DocumentStage"];

const NAMES = { source: "File intake", ingestion: "Extraction", matching: "Matching", output: "Result delivery" };
const UNFINISHED: Stage["state"][] = ["failed", "in-progress", "pending"]; // most important first

// Returns the stage that determines the document's state.
export function currentStage(stages: Stage[]): Pick<Stage, "state"> & { stage: Stage["stage"] | null } {
  for (const state of UNFINISHED) {
    const found = stages.find((one) => one.state === state);
    if (found) {
      return found;
    }
  }
  return stages.findLast((one) => one.state !== "none") ?? { stage: null, state: "pending" };
}

// Returns whether no stage up to matching is pending, in progress or failed.
export const isDone = (stages: Stage[]) =>
  !stages.some(({ stage, state }) => stage !== "output" && UNFINISHED.includes(state));

export function CurrentStage({ stages }: { stages: Stage[] }) {
  const { stage, state } = currentStage(stages);
  return (
    <>
      <Status status={state} />
      {stage && (
        <>
          {" "}
          <span class="muted">{NAMES[stage]}</span>
        </>
      )}
    </>
  );
}

export function Stages({ stages }: { stages: Stage[] }) {
  return (
    <ol class="stages" aria-label="Stages">
      {stages.map(({ stage, state, reason }) => (
        <li>
          <b>{NAMES[stage]}</b> {state === "none" ? <span class="muted">Not started</span> : <Status status={state} />}
          {reason && <p class={state === "failed" ? "failure" : "muted"}>{reason}</p>}
        </li>
      ))}
    </ol>
  );
}

// Options for the list's filter: API names and labels.
export const STAGE_LABELS: Option[] = [
  ["source:failed", "File intake failed"],
  ["ingestion:pending", "Waiting for extraction"],
  ["ingestion:in-progress", "Being extracted"],
  ["ingestion:failed", "Extraction failed"],
  ["matching:pending", "Waiting for matching"],
  ["matching:in-progress", "Being matched"],
  ["matching:succeeded", "Matched"],
  ["matching:skipped", "Nothing to match"],
  ["matching:failed", "Matching failed"],
  ["output:failed", "Result delivery failed"],
];
