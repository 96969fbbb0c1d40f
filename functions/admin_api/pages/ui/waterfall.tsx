// Waterfall chart of evidence: bits of each feature for or against a match, and their sum.
import type { Schemas } from "../api";

type Step = Schemas["Step"];
export type Span = { low: number; high: number };

const WIDTH = 200;
const HEIGHT = 14;
const MIN_BAR = 2; // keeps small values visible

export const bits = (value: number) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`;

// Lowest and highest sum of several charts, so that their bars have the same scale.
export function barSpan(evidences: Step[][]): Span {
  const sums = evidences.flatMap((evidence) => evidence.map((step) => step.total));
  return { low: Math.min(0, ...sums), high: Math.max(0, ...sums) };
}

// The table contains the same information as the bars.
export function Waterfall({
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
      <caption class="unseen">{caption}</caption>
      <thead class="unseen">
        <tr>
          <th scope="col">Feature</th>
          <th scope="col">Running total</th>
          <th scope="col">Bits</th>
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
  const kind = step.bits > 0 ? "for" : step.bits < 0 ? "against" : "neither";
  return (
    <tr>
      <th scope="row">
        {step.label} <span class="quiet">{step.text}</span>
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
