// Graph of a cluster: a column for each document type, from contracts to credit notes, and a line for each match.

import { type DocumentInfo, documentTitle } from "../documents/summary";
import { navigate } from "../router";
import { toLabel } from "../ui/format";
import { BOX, type Ends, edgePaths, layoutNodes, type Point } from "./layout";

type Link = Ends & { decided_by: string };

const MAX_LINE_LENGTH = 27; // characters
export const MAX_NODES = 60;

const truncate = (text: string) => (text.length > MAX_LINE_LENGTH ? `${text.slice(0, MAX_LINE_LENGTH - 1)}…` : text);

// `chosen`: the index of the selected match. Keyboard users select matches in the list below.
export function Graph({
  docs,
  links,
  tenant,
  current = null,
  chosen = null,
  choose = () => {},
}: {
  docs: DocumentInfo[];
  links: Link[];
  tenant: string;
  current?: string | null;
  chosen?: number | null;
  choose?: (number: number) => void;
}) {
  const drawn = docs.slice(0, MAX_NODES);
  const found = layoutNodes(drawn, links);
  const { columns, positions, width, height } = found;
  return (
    <div class="scrollable" tabindex={0} role="region" aria-label="Graph of documents and matches">
      <svg
        class="graph"
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        role="group"
        aria-label={`${drawn.length} documents and ${links.length} matches, which are also listed below`}
      >
        {columns.map((column) => (
          <text class="kind" x={positions.get(column.docs[0].id)?.x} y="20">
            {column.type ? toLabel(column.type) : "Deleted"}
          </text>
        ))}
        {edgePaths(links, found).map(
          (path, number) =>
            path && (
              // biome-ignore lint/a11y/noStaticElementInteractions: keyboard users select matches in the list below.
              <g
                class={`link ${links[number].decided_by} ${chosen === number ? "selected" : ""}`}
                onClick={() => choose(number)}
              >
                <path class="wide" d={path} />
                <path d={path} />
              </g>
            ),
        )}
        {drawn.map((doc) => (
          <DocumentBox
            key={doc.id}
            doc={doc}
            at={positions.get(doc.id) as Point}
            tenant={tenant}
            isCurrent={doc.id === current}
          />
        ))}
      </svg>
      {docs.length > drawn.length && (
        <p class="muted">
          The first {MAX_NODES} of {docs.length} documents are drawn.
        </p>
      )}
    </div>
  );
}

function DocumentBox({
  doc,
  at,
  tenant,
  isCurrent,
}: {
  doc: DocumentInfo;
  at: Point;
  tenant: string;
  isCurrent: boolean;
}) {
  const lines = [doc.number ?? documentTitle(doc), [doc.date, doc.total].filter(Boolean).join(" · ")];
  return (
    <a
      href={navigate.href(`documents/${doc.id}`, { tenant })}
      aria-label={documentTitle(doc)}
      class={isCurrent ? "current" : ""}
      aria-current={isCurrent ? "true" : undefined}
    >
      <title>{`${documentTitle(doc)} ${doc.seller ?? ""}`}</title>
      <rect x={at.x} y={at.y} width={BOX.width} height={BOX.height} rx="6" />
      <text class="name" x={at.x + 12} y={at.y + 23}>
        {truncate(lines[0])}
      </text>
      <text x={at.x + 12} y={at.y + 43}>
        {truncate(lines[1])}
      </text>
    </a>
  );
}
