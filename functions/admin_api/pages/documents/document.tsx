// One document: pages next to extracted fields, progress, matches and history.

import { useState } from "preact/hooks";
import { POLL_FAST_SECONDS, POLL_LEADER_SECONDS, POLL_SLOW_SECONDS, type Schemas, useQuery } from "../api";
import { STATES } from "../reviews/reviews";
import { navigate, useRoute } from "../router";
import { CopyableId, ErrorNotice, type Fact, FactList, Loading, Notice, Status, useTitle } from "../ui/components";
import { MatchScore } from "../ui/evidence";
import { formatDuration, formatNumber, secondsBetween, shortId, Time, toLabel } from "../ui/format";
import { useShortcuts } from "../ui/shortcuts";
import { UserName } from "../ui/user_name";
import { eventTitle, matchedBy, showsActor } from "./events";
import { Fields, LineItems } from "./extracted_fields";
import { usePageImage } from "./page_image";
import { Stages } from "./stages";
import { DocumentLink, documentTitle, toSummary, type WithText } from "./summary";

type DocumentDetail = WithText<Schemas["Document"]>;

export function Document({ id }: { id: string }) {
  const route = useRoute();
  const path = `admin/documents/${encodeURIComponent(id)}`;
  const { data, error, reload } = useQuery<Schemas["Document"]>([path, {}], { every: POLL_LEADER_SECONDS });
  const [page, setPage] = useState(1);
  const image = usePageImage(`${path}/pages/${page}`);
  const doc = data && toSummary(data);
  const title = doc === null ? "Document" : doc.type ? documentTitle(doc) : doc.file;
  useTitle(title);
  const tenant = doc?.tenant ?? route.query.get("tenant");
  const back = (
    <p>
      <a href={navigate.href("documents", { tenant })}>All documents</a>
    </p>
  );
  if (!doc) {
    return (
      <>
        {back}
        {error?.status === 404 ? (
          <Notice isWholePage title="Document not found">
            It was deleted, or it belongs to a tenant that you cannot access.
          </Notice>
        ) : (
          <>
            <h1>Document</h1>
            {error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="the document" />}
          </>
        )}
      </>
    );
  }
  const turn = (to: number) => setPage(Math.min(Math.max(to, 1), image.pages ?? 1));
  return (
    <>
      {back}
      <h1>{title}</h1>
      {error && <ErrorNotice error={error} reload={reload} />}
      <Stages stages={doc.stages} />
      <Facts doc={doc} tenant={tenant} />
      <div class="split-view">
        <PageImage image={image} page={page} turn={turn} title={title} />
        <Fields doc={doc} turn={(image.pages ?? 0) > 1 ? turn : null} />
      </div>
      <LineItems doc={doc} />
      <MatchedDocuments doc={doc} tenant={tenant} />
      <Timeline path={`${path}/timeline`} version={data} doc={doc} tenant={tenant} />
    </>
  );
}

const SOURCES: Record<string, string> = { upload: "Upload", mail: "Email" };

function Facts({ doc, tenant }: { doc: DocumentDetail; tenant: string | null }) {
  const { source } = doc;
  const facts: Fact[] = [
    ["Received", <Time at={doc.received_at} showsUtc />],
    [
      "Source",
      [SOURCES[source.kind] ?? toLabel(source.kind), source.sender, source.subject].filter(Boolean).join(", "),
    ],
    ["File", doc.file],
    ["Document", <CopyableId value={doc.id} />],
  ];
  if (source.kind === "mail") {
    const results = [
      ["SPF", source.spf],
      ["DKIM", source.dkim],
      ["DMARC", source.dmarc],
    ];
    const stated = results.filter(([, result]) => result).map(([name, result]) => `${name} ${result}`);
    facts.splice(2, 0, ["Sender check", stated.join(", ") || "No result"]);
  }
  if (doc.duplicate_uploads) {
    facts.push([
      "Duplicates",
      <>
        {formatNumber(doc.duplicate_uploads)}, most recently at <Time at={doc.last_duplicate_at} />
      </>,
    ]);
  }
  if (doc.parent_id) {
    const of = <a href={navigate.href(`documents/${doc.parent_id}`, { tenant })}>a file with several documents</a>;
    facts.push([
      "Part of",
      <>
        {of}, pages {doc.first_page} to {doc.last_page}
      </>,
    ]);
  }
  if (doc.parts.length) {
    facts.push([
      "Split into",
      doc.parts.map((part) => (
        <>
          <a href={navigate.href(`documents/${part.id}`, { tenant })}>
            pages {part.first_page} to {part.last_page}
          </a>{" "}
        </>
      )),
    ]);
  }
  if (doc.cluster_id) {
    const href = navigate.href(`clusters/${doc.cluster_id}`, { tenant, document: doc.id });
    facts.push(["Cluster", <a href={href}>View cluster</a>]);
  }
  if (doc.review) {
    facts.push([
      "Review",
      <a href={navigate.href(`reviews/${doc.id}`, { tenant })}>
        <Status status={doc.review} label={STATES[doc.review]} />
      </a>,
    ]);
  }
  for (const deadLetter of doc.dead_letters) {
    facts.push([
      "Dead letter",
      <>
        <a href={navigate.href(`dead-letters/${deadLetter.job_id}`, { tenant })}>{deadLetter.worker}</a>{" "}
        <Status status={deadLetter.status} />
      </>,
    ]);
  }
  if (doc.missing.length) {
    facts.push(["Not extracted", <span class="uncertain">{doc.missing.join(", ")}</span>]);
  }
  return <FactList facts={facts} />;
}

// Shows one page at a time, fitted to the width or at full size.
function PageImage({
  image,
  page,
  turn,
  title,
}: {
  image: ReturnType<typeof usePageImage>;
  page: number;
  turn: (page: number) => void;
  title: string;
}) {
  const { url, pages, error } = image;
  const [isLarge, setIsLarge] = useState(false);
  useShortcuts([
    { key: "n", label: "Next page", act: () => turn(page + 1) },
    { key: "p", label: "Previous page", act: () => turn(page - 1) },
    { key: "z", label: "Switch between full size and page width", act: () => setIsLarge((before) => !before) },
  ]);
  return (
    <section class="page-image" aria-labelledby="pages">
      <h2 id="pages">Page{pages && ` ${formatNumber(page)} of ${formatNumber(pages)}`}</h2>
      {pages && (
        <p class="buttons">
          {pages > 1 && (
            <>
              <button type="button" disabled={page === 1} onClick={() => turn(page - 1)}>
                Previous
              </button>
              <button type="button" disabled={page === pages} onClick={() => turn(page + 1)}>
                Next
              </button>
            </>
          )}
          <button type="button" aria-pressed={isLarge} onClick={() => setIsLarge(!isLarge)}>
            Full size
          </button>
        </p>
      )}
      {error ? (
        <p class="no-image">{error.message}</p>
      ) : url ? (
        <div
          class={`page-scroller ${isLarge ? "large" : ""}`}
          tabindex={0}
          role="region"
          aria-label="Image of the page"
        >
          <img src={url} alt={`Page ${page} of ${title}`} />
        </div>
      ) : (
        <p class="no-image waiting" role="status">
          Loading the page…
        </p>
      )}
    </section>
  );
}

// The document's matches with their evidence.
function MatchedDocuments({ doc, tenant }: { doc: DocumentDetail; tenant: string | null }) {
  if (!doc.matches.length) {
    return null;
  }
  return (
    <section aria-labelledby="partners">
      <h2 id="partners">Matched documents</h2>
      <ul class="matches">
        {doc.matches.map((edge) => (
          <li key={edge.document.id}>
            <DocumentLink doc={edge.document} tenant={tenant} />
            <div class="match-reasons">
              <p>{edge.reasoning}</p>
              <MatchScore match={edge} caption={`Evidence for ${documentTitle(edge.document)}`} />
            </div>
          </li>
        ))}
      </ul>
      {doc.matches_total > doc.matches.length && (
        <p class="muted">
          The {formatNumber(doc.matches.length)} strongest of {formatNumber(doc.matches_total)} matches are shown.
        </p>
      )}
    </section>
  );
}

// Reloads when the document changes, and polls more often while a stage is pending or in progress.
function Timeline({
  path,
  version,
  doc,
  tenant,
}: {
  path: string;
  version: unknown;
  doc: DocumentDetail;
  tenant: string | null;
}) {
  const isInProgress = doc.stages.some(({ state }) => state === "pending" || state === "in-progress");
  const { data, error, reload } = useQuery<Schemas["DocumentTimeline"]>([path, {}], {
    every: isInProgress ? POLL_FAST_SECONDS : POLL_SLOW_SECONDS,
    version,
  });
  const known = new Map(doc.matches.map((edge) => [edge.document.id, edge.document]));
  return (
    <section aria-labelledby="timeline">
      <h2 id="timeline">History</h2>
      {error && !data ? (
        <ErrorNotice error={error} reload={reload} />
      ) : !data ? (
        <Loading subject="the history" />
      ) : (
        <ol class="timeline">
          {data.events.map((event) => (
            <TimelineEvent event={event} known={known} tenant={tenant} />
          ))}
        </ol>
      )}
    </section>
  );
}

function TimelineEvent({
  event,
  known,
  tenant,
}: {
  event: Schemas["DocumentEvent"];
  known: Map<string, Schemas["DocumentSummary"]>;
  tenant: string | null;
}) {
  const seconds = event.started_at ? secondsBetween(event.started_at, event.at) : null;
  const reason = event.detail?.reason ?? event.detail?.reasoning;
  const other = event.other_document_id;
  const otherDocument = other && known.get(other);
  const by = matchedBy(event);
  return (
    <li class={event.kind}>
      <p>
        <b>{eventTitle(event)}</b>
        {other && (
          <>
            {" "}
            <a href={navigate.href(`documents/${other}`, { tenant })}>
              {otherDocument ? documentTitle(otherDocument) : `document ${shortId(other)}`}
            </a>
          </>
        )}
        {event.job_id && (
          <>
            {" "}
            <a href={navigate.href(`dead-letters/${event.job_id}`, { tenant })}>View dead letter</a>
          </>
        )}
        <span class="muted">
          {" "}
          <Time at={event.at} />
          {by && `, decided by ${by}`}
          {showsActor(event) && (
            <>
              , <UserName value={event.actor} />
            </>
          )}
          {seconds !== null && `, took ${formatDuration(seconds)}`}
        </span>
      </p>
      {event.error && (
        <p class="error">
          {event.error_type && `${event.error_type}: `}
          {event.error}
        </p>
      )}
      {typeof reason === "string" && reason && <p class="muted">{reason}</p>}
      {event.next_attempt_at && (
        <p class="muted">
          Next attempt at <Time at={event.next_attempt_at} />
        </p>
      )}
    </li>
  );
}
