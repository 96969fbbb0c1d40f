// JSON as text or as a tree.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { formatNumber } from "./format";
import { formatJson } from "./json_text";

// Shows external JSON: small values as text, large ones as a collapsible tree.
export function Json({ value, label }: { value: unknown; label: string }) {
  const text = formatJson(value, 2);
  const large = text.length > LARGE;
  const [asText, setAsText] = useState(false);
  return (
    <>
      {large && (
        <p class="buttons">
          <button type="button" class="small" onClick={() => setAsText(!asText)}>
            {asText ? "Show as tree" : "Show as text"}
          </button>
        </p>
      )}
      {large && !asText ? (
        <div class="tree" tabindex={0} role="region" aria-label={label}>
          <Branch value={value} depth={0} />
        </div>
      ) : (
        <pre tabindex={0} role="region" aria-label={label}>
          {text}
        </pre>
      )}
    </>
  );
}

const LARGE = 2000; // characters
const LONG = 400; // characters of a value shown at first
const MANY = 100; // entries shown at first

function Branch({ name = null, value, depth }: { name?: string | null; value: unknown; depth: number }) {
  const label =
    name === null ? null : (
      <>
        <b>{name}:</b>{" "}
      </>
    );
  if (value === null || typeof value !== "object" || JSON.isRawJSON?.(value)) {
    return (
      <div class="leaf">
        {label}
        <Leaf value={value} />
      </div>
    );
  }
  const entries = Object.entries(value);
  const count = Array.isArray(value) ? `[${formatNumber(entries.length)}]` : `{${formatNumber(entries.length)}}`;
  return (
    <Collapsible
      open={depth === 0 || (depth < 3 && entries.length <= 12)}
      head={
        <>
          {label}
          <span class="muted">{count}</span>
        </>
      }
      entries={entries}
      depth={depth}
    />
  );
}

function Collapsible({
  open,
  head,
  entries,
  depth,
}: {
  open: boolean;
  head: ComponentChildren;
  entries: [string, unknown][];
  depth: number;
}) {
  const [shown, setShown] = useState(open);
  const [most, setMost] = useState(MANY);
  return (
    <details open={open} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>{head}</summary>
      {shown &&
        entries.slice(0, most).map(([name, one]) => <Branch key={name} name={name} value={one} depth={depth + 1} />)}
      {shown && entries.length > most && (
        <button type="button" class="small" onClick={() => setMost(most + 10 * MANY)}>
          Show {formatNumber(entries.length - most)} more
        </button>
      )}
    </details>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [isExpanded, setExpanded] = useState(false);
  const text = formatJson(value);
  if (text.length <= LONG || isExpanded) {
    return <code>{text}</code>;
  }
  return (
    <>
      <code>{text.slice(0, LONG)}…</code>
      <button type="button" class="small" onClick={() => setExpanded(true)}>
        Show all {formatNumber(text.length)} characters
      </button>
    </>
  );
}
