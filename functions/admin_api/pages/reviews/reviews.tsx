// Review queue: ambiguous matches, oldest first.

import { POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { currentSession } from "../current_session";
import { documentName, documentTitle, KINDS, Supplier } from "../documents/summary";
import { knownValue, navigate, type Route, useRoute } from "../router";
import { tenantOf } from "../tenant";
import { ErrorNotice, Loading, Notice, Pagination, useTitle } from "../ui/components";
import { ANY, Choice, type Option } from "../ui/filters";
import { formatDay, formatPercent, formatTotal, Time, toLabel } from "../ui/format";
import { useRowShortcuts } from "../ui/shortcuts";
import { DecisionNotice } from "./decisions";

export type ReviewFilter = ReturnType<typeof queueFilter>;
// The OpenAPI description lacks these properties.
export type AmbiguousMatch = Schemas["AmbiguousMatch"] & {
  reason?: string | null;
  number?: string | null;
  llm_skip_reason?: string | null;
  other_candidates?: unknown[];
  count?: number;
};

const SHOWN_CANDIDATES = 3;
type State = Schemas["Review"]["state"];

export const STATES: Record<State, string> = {
  open: "Needs review",
  decided: "Decided by a reviewer",
  resolved: "No longer needs review",
};
const PROBABILITIES: Option[] = [ANY, ["0.5", "50% or more"], ["0.8", "80% or more"], ["0.9", "90% or more"]];

export function queueFilter(route: Route) {
  const { query } = route;
  return {
    tenant: tenantOf(route, currentSession()),
    state: knownValue(Object.keys(STATES) as State[], query.get("state")) || "open",
    document_type: knownValue(KINDS, query.get("document_type")),
    min_probability: knownValue(
      PROBABILITIES.map(([probability]) => probability),
      query.get("min_probability"),
    ),
    cursor: query.get("cursor") ?? "",
  };
}

// Returns the URL of the queue or of a review, without default values.
export const queueUrl = ({ state, ...others }: ReviewFilter, path = "reviews") =>
  navigate.href(path, { ...others, state: state === "open" ? "" : state });

export function Reviews() {
  const filter = queueFilter(useRoute());
  useTitle("Review");
  const { data, error, busy, reload } = useQuery<Schemas["ReviewPage"]>(["admin/reviews", filter], {
    every: filter.cursor ? 0 : POLL_FAST_SECONDS,
  });
  return (
    <>
      <h1>Review</h1>
      <p class="lead">Documents with uncertain matches. A decision applies until a reviewer changes it.</p>
      <DecisionNotice />
      <Filter filter={filter} />
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <section aria-label="Documents to review" aria-busy={busy}>
          <Queue filter={filter} data={data} />
        </section>
      ) : (
        !error && <Loading subject="documents to review" />
      )}
    </>
  );
}

function Filter({ filter }: { filter: ReviewFilter }) {
  const change = (more: Partial<ReviewFilter>) => navigate.to(queueUrl({ ...filter, cursor: "", ...more }));
  const isFiltered = filter.document_type || filter.min_probability || filter.state !== "open";
  return (
    <form class="filter" role="search" aria-label="Documents to review" onSubmit={(event) => event.preventDefault()}>
      <Choice
        title="Status"
        value={filter.state}
        options={Object.entries(STATES)}
        choose={(state) => change({ state: state as State })}
      />
      <Choice
        title="Type"
        value={filter.document_type}
        options={[ANY, ...KINDS.map((kind): Option => [kind, toLabel(kind)])]}
        choose={(document_type) => change({ document_type })}
      />
      <Choice
        title="Probability of the best candidate"
        value={filter.min_probability}
        options={PROBABILITIES}
        choose={(min_probability) => change({ min_probability })}
      />
      {isFiltered && (
        <div class="buttons">
          <a class="button" href={navigate.href("reviews", { tenant: filter.tenant })}>
            Clear
          </a>
        </div>
      )}
    </form>
  );
}

function Queue({ filter, data }: { filter: ReviewFilter; data: Schemas["ReviewPage"] }) {
  const { body } = useRowShortcuts("document");
  if (!data.reviews.length) {
    return <EmptyList filter={filter} />;
  }
  return (
    <>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Document</th>
            <th scope="col">Supplier</th>
            <th scope="col" class="count">
              Total
            </th>
            <th scope="col">Candidates</th>
            <th scope="col" class="count">
              Probability
            </th>
            <th scope="col">Since</th>
          </tr>
        </thead>
        <tbody ref={body}>
          {data.reviews.map((review) => (
            <Row key={review.id} review={review} filter={filter} />
          ))}
        </tbody>
      </table>
      <Pagination
        newest={filter.cursor && queueUrl({ ...filter, cursor: "" })}
        older={data.next_cursor && queueUrl({ ...filter, cursor: data.next_cursor })}
        names={["First", "Next"]}
      />
    </>
  );
}

export function Row({ review, filter }: { review: Schemas["Review"]; filter: ReviewFilter }) {
  return (
    <tr>
      <td data-label="Document" class="single-line">
        <a href={queueUrl({ ...filter, cursor: "" }, `reviews/${review.id}`)}>{documentTitle(review.document)}</a>
      </td>
      <td data-label="Supplier">
        <Supplier doc={review.document} />
      </td>
      <td data-label="Total" class="count">
        {formatTotal(review.document.total)}
      </td>
      <td data-label="Candidates">{review.ambiguous_matches.map(candidateNames).join("; ")}</td>
      <td data-label="Probability" class="count">
        {formatPercent(review.probability)}
      </td>
      <td data-label="Since">
        <Time at={review.opened_at} />
      </td>
    </tr>
  );
}

// Returns the names of the best candidates. Equal names are followed by the documents' dates.
function candidateNames({ candidates, count }: AmbiguousMatch) {
  const shown = candidates.slice(0, SHOWN_CANDIDATES).map((candidate) => candidate.document);
  const titles = shown.map(documentTitle);
  const names = shown.map((doc, place) => {
    const isUnique = titles.indexOf(titles[place]) === titles.lastIndexOf(titles[place]);
    const name = documentName(doc, isUnique ? null : formatDay(doc.date));
    return place ? name : `${name[0].toUpperCase()}${name.slice(1)}`;
  });
  const left = (count ?? candidates.length) - shown.length;
  return [...names, ...(left > 0 ? [`${left} more`] : [])].join(" or ");
}

function EmptyList({ filter }: { filter: ReviewFilter }) {
  if (filter.document_type || filter.min_probability || filter.cursor) {
    return <Notice title="No results">No documents match. Clear the filter or choose another status.</Notice>;
  }
  if (filter.state === "open") {
    return (
      <Notice title="No documents to review">
        All matches are certain or were decided by a reviewer. New documents appear here automatically.
      </Notice>
    );
  }
  return <Notice title="No documents">No documents have the status “{STATES[filter.state]}”.</Notice>;
}
