// Evidence of a match: reasons in words, and a waterfall chart of their weights in bits.
import type { Schemas } from "../api";
import { toLabel } from "./format";

type Step = Schemas["Step"];
export type Span = { low: number; high: number };

const WIDTH = 200;
const HEIGHT = 14;
const MIN_BAR = 2; // keeps small values visible
const MIN_ARGUMENT = 1; // bits
const DECIDED_BY: Record<string, string> = { rules: "rules", llm: "the language model", reviewer: "a reviewer" };

// A match, or a candidate for one.
type Match = { evidence: Step[] } & (
  | { score: number; confidence: string; decided_by: string }
  | { weight_bits: number; probability: number }
);

const bits = (value: number) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`;

// Returns the lowest and highest running total of several charts, so that their bars share one scale.
export function barSpan(evidences: Step[][]): Span {
  const sums = evidences.flatMap((evidence) => evidence.map((step) => step.total));
  return { low: Math.min(0, ...sums), high: Math.max(0, ...sums) };
}

// Reasons for and against a candidate, strongest first.
export function EvidenceList({ evidence }: { evidence: Step[] }) {
  const strong = evidence
    .filter((step) => step.feature !== "prior" && Math.abs(step.bits) >= MIN_ARGUMENT)
    .sort((one, other) => Math.abs(other.bits) - Math.abs(one.bits));
  const sentences = (steps: Step[]) => steps.map((step) => step.sentence).join(" ");
  const supporting = sentences(strong.filter((step) => step.bits > 0));
  const contradicting = sentences(strong.filter((step) => step.bits < 0));
  return (
    <>
      {supporting && (
        <p>
          <b>For:</b> {supporting}
        </p>
      )}
      {contradicting && (
        <p>
          <b>Against:</b> {contradicting}
        </p>
      )}
    </>
  );
}

// Collapsed details about a match: its score and evidence.
export function MatchScore({ match, span, caption }: { match: Match; span?: Span; caption: string }) {
  const total = "score" in match ? match.score : match.weight_bits;
  return (
    <details>
      <summary>How sure?</summary>
      {"score" in match && (
        <p>
          Decided by {DECIDED_BY[match.decided_by] ?? match.decided_by}. Confidence: {match.confidence}.
        </p>
      )}
      {match.evidence.length > 0 ? (
        <Waterfall evidence={match.evidence} span={span} total={total} caption={caption} />
      ) : (
        <p class="muted">{bits(total)} bits in total.</p>
      )}
    </details>
  );
}

// Table with a bar per feature. The cells state the same numbers as the bars.
function Waterfall({
  evidence,
  span = barSpan([evidence]),
  total = evidence.at(-1)?.total ?? 0,
  caption,
}: {
  evidence: Step[];
  span?: Span;
  total?: number;
  caption: string;
}) {
  const scale = WIDTH / Math.max(span.high - span.low, 1);
  const toX = (value: number) => (value - span.low) * scale;
  return (
    <table class="waterfall">
      <caption class="visually-hidden">{caption}</caption>
      <thead class="visually-hidden">
        <tr>
          <th scope="col">Feature</th>
          <th scope="col">Running total</th>
          <th scope="col">Weight (bits)</th>
        </tr>
      </thead>
      <tbody>
        {evidence.map((step) => (
          <Step step={step} toX={toX} />
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">Total</th>
          <td></td>
          <td class="count">{bits(total)} bits</td>
        </tr>
      </tfoot>
    </table>
  );
}

function Step({ step, toX }: { step: Step; toX: (value: number) => number }) {
  const [from, to] = [toX(step.total - step.bits), toX(step.total)];
  const width = Math.max(Math.abs(to - from), MIN_BAR);
  const kind = step.bits > 0 ? "supporting" : step.bits < 0 ? "contradicting" : "neutral";
  return (
    <tr>
      <th scope="row">
        {toLabel(step.label)}: <span class="muted">{step.text}</span>
      </th>
      <td>
        <svg class="bar" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <line x1={toX(0)} x2={toX(0)} y1="0" y2={HEIGHT} />
          <rect class={kind} x={Math.min(from, to)} y="3" width={width} height={HEIGHT - 6} />
        </svg>
      </td>
      <td class="count">{bits(step.bits)}</td>
    </tr>
  );
}
