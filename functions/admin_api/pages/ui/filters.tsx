// Filter fields. `change` receives the changed values by query parameter.

import { useEffect, useState } from "preact/hooks";
import { toLabel } from "./format";

export type Option = readonly [value: string, label: string];

export const ANY: Option = ["", "Any"];

export const plainOptions = (values: readonly string[]) => values.map((value): Option => [value, toLabel(value)]);

export function Choice({
  title,
  value,
  options,
  choose,
}: {
  title: string;
  value: string;
  options: readonly Option[];
  choose: (value: string) => void;
}) {
  return (
    <label>
      {title}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([one, label]) => (
          <option value={one}>{label}</option>
        ))}
      </select>
    </label>
  );
}

export function Days({
  filter,
  change,
}: {
  filter: { from: string; to: string };
  change: (days: { from?: string; to?: string }) => void;
}) {
  return (
    <>
      <label>
        From
        <input type="date" value={filter.from} onChange={(event) => change({ from: event.currentTarget.value })} />
      </label>
      <label>
        To
        <input type="date" value={filter.to} onChange={(event) => change({ to: event.currentTarget.value })} />
      </label>
    </>
  );
}

// Returns a field's unsubmitted text and its setter. When the URL changes, the text is reset to `known`.
export function useTyped(known: string) {
  const [text, setText] = useState(known);
  useEffect(() => setText(known), [known]);
  return [text, setText] as const;
}
