// Small per-minute charts for the last hour, each with a text alternative.

const HEIGHT = 24;
const STEP = 4; // width of one minute, in SVG units
const MIN_BAR = 1.5; // keeps small values visible

// Outcomes per minute, with failed work items stacked on top of `done` ones.
export function ThroughputChart({ done, failed, label }: { done: number[]; failed: number[]; label: string }) {
  const most = Math.max(1, ...done.map((one, minute) => one + failed[minute]));
  const height = (count: number) => (count ? Math.max(MIN_BAR, (count / most) * (HEIGHT - 1)) : 0);
  return (
    <svg
      class="chart"
      viewBox={`0 0 ${done.length * STEP} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <line x1="0" x2={done.length * STEP} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      {done.map((one, minute) => {
        const [good, bad] = [height(one), height(failed[minute])];
        const x = minute * STEP;
        return (
          <>
            {one > 0 && <rect class="ended" x={x} y={HEIGHT - good} width={STEP - 1} height={good} />}
            {failed[minute] > 0 && (
              <rect class="failed" x={x} y={Math.max(0, HEIGHT - good - bad)} width={STEP - 1} height={bad} />
            )}
          </>
        );
      })}
    </svg>
  );
}

// Line chart of a value per minute. Minutes without a measurement (null) are gaps.
export function LineChart({ values, label }: { values: (number | null)[]; label: string }) {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const point = (value: number, minute: number) =>
    `${minute * STEP + STEP / 2} ${HEIGHT - 1 - (value / most) * (HEIGHT - 3)}`;
  let path = "";
  values.forEach((value, minute) => {
    if (value !== null) {
      const begins = minute === 0 || values[minute - 1] === null;
      path += `${begins ? "M" : "L"}${point(value, minute)}${begins ? "h.01" : ""}`;
    }
  });
  return (
    <svg
      class="chart"
      viewBox={`0 0 ${values.length * STEP} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <line x1="0" x2={values.length * STEP} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      <path d={path} />
    </svg>
  );
}

// Bar that shows how much of a limit is used. Hidden from screen readers, because the text next to it shows the same
// numbers.
export function Gauge({ used, of }: { used: number; of: number }) {
  const share = of ? Math.min(1, used / of) : 0;
  return (
    <svg class={`gauge ${share >= 1 ? "full" : ""}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="100" height="8" rx="4" />
      <rect class="value" width={share * 100} height="8" rx="4" />
    </svg>
  );
}
