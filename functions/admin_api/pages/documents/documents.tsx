// List of documents with type, supplier, total and progress. The filter is stored in the URL.

import { POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { ClusterStatus } from "../clusters/status";
import { currentSession } from "../current_session";
import { knownValue, navigate, type Route, useRoute } from "../router";
import { tenantOf } from "../tenant";
import { ErrorNotice, Loading, Notice, Pagination, useTitle } from "../ui/components";
import { ANY, Choice, Days, type Option, useTyped } from "../ui/filters";
import { formatNumber, startOfDay, Time, toLabel } from "../ui/format";
import { CurrentStage, isDone, STAGE_LABELS } from "./stages";
import { documentTitle, KINDS, Supplier, toSummary, type WithText } from "./summary";
import { AddDocuments } from "./upload";

type ListFilter = ReturnType<typeof filterFrom>;
type ListedDocument = WithText<Schemas["DocumentSummary"]>;

const MAX_TEXT_LENGTH = 200;
const TYPES: string[] = [...KINDS, "other"];

function filterFrom(route: Route) {
  const { query } = route;
  return {
    tenant: tenantOf(route, currentSession()),
    type: knownValue(TYPES, query.get("type")),
    state: knownValue(
      STAGE_LABELS.map(([value]) => value),
      query.get("state"),
    ),
    search: query.get("search") ?? "",
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    cursor: query.get("cursor") ?? "",
  };
}

export function Documents() {
  const filter = filterFrom(useRoute());
  const { from, to, ...others } = filter;
  useTitle("Documents");
  const { data, error, busy, reload } = useQuery<Schemas["DocumentPage"]>(
    ["admin/documents", { ...others, received_from: startOfDay(from), received_before: startOfDay(to, 1) }],
    { every: filter.cursor ? 0 : POLL_FAST_SECONDS },
  );
  return (
    <>
      <div class="heading">
        <h1>Documents</h1>
        <AddDocuments tenant={filter.tenant} />
      </div>
      <p class="lead">
        Invoices, purchase orders, delivery notes and related documents, newest first. Drop files anywhere on the page
        to upload them.
      </p>
      <Filter filter={filter} />
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <section aria-label="Documents" aria-busy={busy}>
          <Rows filter={filter} data={data} />
        </section>
      ) : (
        !error && <Loading subject="documents" />
      )}
    </>
  );
}

function Filter({ filter }: { filter: ListFilter }) {
  const [search, setSearch] = useTyped(filter.search);
  const change = (more: Partial<ListFilter>) => navigate("documents", { ...filter, cursor: "", ...more });
  const isFiltered = filter.search || filter.type || filter.state || filter.from || filter.to;
  const submit = (event: Event) => {
    event.preventDefault();
    change({ search: search.trim() });
  };
  return (
    <form class="filter" role="search" aria-label="Documents" onSubmit={submit}>
      <label class="wide">
        Number, company or file
        <input
          type="search"
          maxlength={MAX_TEXT_LENGTH}
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      </label>
      <Choice
        title="Type"
        value={filter.type}
        options={[ANY, ...TYPES.map((type): Option => [type, toLabel(type)])]}
        choose={(type) => change({ type })}
      />
      <Choice
        title="Status"
        value={filter.state}
        options={[ANY, ...STAGE_LABELS]}
        choose={(state) => change({ state })}
      />
      <Days filter={filter} change={change} />
      <div class="buttons">
        <button class="primary" type="submit">
          Search
        </button>
        {isFiltered && (
          <a class="button" href={navigate.href("documents", { tenant: filter.tenant })}>
            Clear
          </a>
        )}
      </div>
    </form>
  );
}

function Rows({ filter, data }: { filter: ListFilter; data: Schemas["DocumentPage"] }) {
  if (!data.documents.length) {
    const isFiltered = filter.search || filter.type || filter.state || filter.from || filter.to || filter.cursor;
    if (data.next_cursor) {
      return (
        <p class="notice">
          No matches on this page.{" "}
          <a href={navigate.href("documents", { ...filter, cursor: data.next_cursor })}>Search older documents</a>
        </p>
      );
    }
    return isFiltered ? (
      <Notice title="No results">No documents match. Clear the search or the filter.</Notice>
    ) : (
      <Notice title="No documents yet">
        Drop files on this page, email them to the tenant’s address, or run <code>counterfoil ingest</code>.
      </Notice>
    );
  }
  return (
    <>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Document</th>
            <th scope="col">Supplier</th>
            <th scope="col">Date</th>
            <th scope="col" class="count">
              Total
            </th>
            <th scope="col">Status</th>
            <th scope="col">Cluster</th>
            <th scope="col">Received</th>
          </tr>
        </thead>
        <tbody>
          {data.documents.map((one) => (
            <Row key={one.id} doc={toSummary(one)} tenant={filter.tenant} />
          ))}
        </tbody>
      </table>
      <Pagination
        newest={filter.cursor && navigate.href("documents", { ...filter, cursor: "" })}
        older={data.next_cursor && navigate.href("documents", { ...filter, cursor: data.next_cursor })}
      />
    </>
  );
}

export function Row({ doc, tenant }: { doc: ListedDocument; tenant: string | null }) {
  const title = doc.type ? documentTitle(doc) : doc.file;
  const [order, ...others] = doc.cluster_order_numbers;
  const clusterName = order ? `${order}${others.length ? ` and ${formatNumber(others.length)} more` : ""}` : "View";
  const path = doc.dead_letter ? `dead-letters/${doc.dead_letter}` : `documents/${doc.id}`;
  return (
    <tr>
      <td data-label="Document">
        <a href={navigate.href(path, { tenant })}>{title}</a>
        {doc.type && <span class="muted file-name">{doc.file}</span>}
      </td>
      <td data-label="Supplier">
        <Supplier doc={doc} />
      </td>
      <td data-label="Date" class="single-line">
        {doc.date}
      </td>
      <td data-label="Total" class="count">
        {doc.total}
      </td>
      <td data-label="Status">
        {doc.cluster_status && isDone(doc.stages) ? (
          <ClusterStatus status={doc.cluster_status} />
        ) : (
          <CurrentStage stages={doc.stages} />
        )}
      </td>
      <td data-label="Cluster" class="single-line">
        {doc.cluster_id && (
          <a
            href={navigate.href(`clusters/${doc.cluster_id}`, { tenant, document: doc.id })}
            aria-label={`${clusterName} (cluster of ${title})`}
          >
            {clusterName}
          </a>
        )}
      </td>
      <td data-label="Received">
        <Time at={doc.received_at} />
      </td>
    </tr>
  );
}
