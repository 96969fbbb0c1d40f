// Components shared by several views.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { shortId, toLabel } from "./format";

export type Fact = [name: string, value: ComponentChildren];

export function useTitle(title: string) {
  useEffect(() => {
    document.title = `${title} · Counterfoil`;
  }, [title]);
}

// `isWholePage`: the page has no other content.
export function Notice({
  title,
  isWholePage = false,
  children,
}: {
  title: string;
  isWholePage?: boolean;
  children: ComponentChildren;
}) {
  const Heading = isWholePage ? "h1" : "h2";
  return (
    <section class="notice">
      <Heading>{title}</Heading>
      <p>{children}</p>
    </section>
  );
}

export function ErrorNotice({ error, reload }: { error: Error; reload: () => void }) {
  return (
    <div class="notice failure" role="alert">
      <p>{error.message}</p>
      <button type="button" onClick={reload}>
        Reload
      </button>
    </div>
  );
}

// Loading message. It is invisible at first, so that short waits do not flicker.
export function Loading({ subject }: { subject: string }) {
  return (
    <p class="waiting" role="status">
      Loading {subject}…
    </p>
  );
}

export function Status({ status, label = status }: { status: string; label?: string }) {
  return <span class={`status ${status.replaceAll(" ", "-")}`}>{toLabel(label)}</span>;
}

export function FactList({ facts }: { facts: Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

// Message about a completed action. It takes the focus, because the action often removes the focused element.
export function SuccessNotice({ children }: { children: ComponentChildren }) {
  const paragraph = useRef<HTMLParagraphElement>(null);
  useEffect(() => paragraph.current?.focus(), [children]);
  return (
    <p class="notice success" role="status" tabindex={-1} ref={paragraph}>
      {children}
    </p>
  );
}

const LONG_ID = 32; // characters; longer ids and hashes are shortened

// An id or a hash, with a button that copies all of it.
export function CopyableId({ value }: { value: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(value);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <span class="single-line">
      <code title={value}>{value.length < LONG_ID ? value : `…${shortId(value)}`}</code>
      <button type="button" class="small" onClick={copy} aria-label={`Copy ${value}`}>
        {copied ? "Copied" : "Copy"}
      </button>
    </span>
  );
}

// Links to the first and the next page. `names`: labels for lists that do not start with the newest entry.
export function Pagination({
  newest,
  older,
  names = ["Newest", "Older"],
}: {
  newest: string | null;
  older: string | null;
  names?: [string, string];
}) {
  return (
    <p class="pagination">
      {newest && (
        <a class="button" href={newest}>
          {names[0]}
        </a>
      )}
      {older && (
        <a class="button" href={older}>
          {names[1]}
        </a>
      )}
    </p>
  );
}
