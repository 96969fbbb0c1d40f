// Clusters by status. The filter is stored in the URL.

import { POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { currentSession } from "../current_session";
import { knownValue, navigate, type Route, useRoute } from "../router";
import { tenantOf } from "../tenant";
import { ErrorNotice, Loading, Notice, Pagination, useTitle } from "../ui/components";
import { Choice, useTyped } from "../ui/filters";
import { formatMoment, formatMoney, formatNumber, shortId } from "../ui/format";
import { useRowShortcuts } from "../ui/shortcuts";
import { ClusterStatus, STATUSES } from "./status";

type ListFilter = ReturnType<typeof filterFrom>;

const MAX_TEXT_LENGTH = 200;
const MAX_COUNT = 1000; // the API stops counting at this number
const ALL = "all";
const SORTS: [string, string][] = [
  ["oldest", "Oldest first"],
  ["newest", "Newest first"],
  ["amount", "Largest amount affected"],
];
const OPEN_STATUSES = ["exception", "needs-review", "disputed", "incomplete"];
const DAY = 86_400_000; // ms

function filterFrom(route: Route) {
  const { query } = route;
  const status = query.get("status");
  return {
    tenant: tenantOf(route, currentSession()),
    status: knownValue([ALL, ...Object.keys(STATUSES)], status) || "open",
    supplier: query.get("supplier") ?? "",
    number: query.get("number") ?? "",
    sort:
      knownValue(
        SORTS.map(([sort]) => sort),
        query.get("sort"),
      ) || "oldest",
    cursor: query.get("cursor") ?? "",
  };
}

// Returns the URL for a filter, without default values.
const hrefOf = ({ status, sort, ...others }: ListFilter) =>
  navigate.href("clusters", {
    ...others,
    status: status === "open" ? "" : status,
    sort: sort === "oldest" ? "" : sort,
  });

export function Clusters() {
  const filter = filterFrom(useRoute());
  useTitle("Clusters");
  const { data, error, busy, reload } = useQuery<Schemas["ClusterPage"]>(
    ["admin/clusters", { ...filter, status: filter.status === ALL ? "" : filter.status }],
    { every: filter.cursor ? 0 : POLL_FAST_SECONDS },
  );
  return (
    <>
      <h1>Clusters</h1>
      <p class="lead">
        A cluster is a purchase order with its delivery notes and invoices. Open clusters need a decision or are missing
        a document.
      </p>
      {data && <Counts filter={filter} counts={data.counts} />}
      <Filter filter={filter} />
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <section aria-label="Clusters" aria-busy={busy}>
          <Rows filter={filter} data={data} />
        </section>
      ) : (
        !error && <Loading subject="clusters" />
      )}
    </>
  );
}

function Counts({ filter, counts }: { filter: ListFilter; counts: Record<string, number> }) {
  const total = (statuses: string[]) => statuses.reduce((sum, status) => sum + counts[status], 0);
  const choices: [string, string, number][] = [
    ["open", "Open", total(OPEN_STATUSES)],
    ...Object.entries(STATUSES).map(([status, title]): [string, string, number] => [status, title, counts[status]]),
    [ALL, "All", total(Object.keys(STATUSES))],
  ];
  return (
    <nav class="counts" aria-label="Status">
      {choices.map(([status, title, count]) => (
        <a
          href={hrefOf({ ...filter, cursor: "", status })}
          aria-current={filter.status === status ? "true" : undefined}
        >
          <b>{count > MAX_COUNT ? `${formatNumber(MAX_COUNT)}+` : formatNumber(count)}</b> {title}
        </a>
      ))}
    </nav>
  );
}

function Filter({ filter }: { filter: ListFilter }) {
  const [supplier, setSupplier] = useTyped(filter.supplier);
  const [number, setNumber] = useTyped(filter.number);
  const change = (more: Partial<ListFilter>) =>
    navigate.to(hrefOf({ ...filter, cursor: "", supplier: supplier.trim(), number: number.trim(), ...more }));
  const submit = (event: Event) => {
    event.preventDefault();
    change({});
  };
  return (
    <form class="filter" role="search" aria-label="Clusters" onSubmit={submit}>
      <label class="wide">
        Supplier starts with
        <input
          type="search"
          maxlength={MAX_TEXT_LENGTH}
          value={supplier}
          onInput={(event) => setSupplier(event.currentTarget.value)}
        />
      </label>
      <label>
        Purchase order or invoice number
        <input
          type="search"
          maxlength={MAX_TEXT_LENGTH}
          value={number}
          onInput={(event) => setNumber(event.currentTarget.value)}
        />
      </label>
      <Choice title="Sort" value={filter.sort} options={SORTS} choose={(sort) => change({ sort })} />
      <div class="buttons">
        <button class="primary" type="submit">
          Search
        </button>
        {(filter.supplier || filter.number) && (
          <a class="button" href={hrefOf({ ...filter, supplier: "", number: "", cursor: "" })}>
            Clear
          </a>
        )}
      </div>
    </form>
  );
}

function Rows({ filter, data }: { filter: ListFilter; data: Schemas["ClusterPage"] }) {
  const { body } = useRowShortcuts("cluster");
  if (!data.clusters.length) {
    return <EmptyList filter={filter} />;
  }
  return (
    <>
      <table class="rows clusters">
        <thead>
          <tr>
            <th scope="col">Status</th>
            <th scope="col">Purchase order</th>
            <th scope="col">Supplier</th>
            <th scope="col" class="count">
              Ordered (net)
            </th>
            <th scope="col" class="count">
              Delivered (net)
            </th>
            <th scope="col" class="count">
              Billed (net)
            </th>
            <th scope="col" class="count">
              Amount affected
            </th>
            <th scope="col">Age</th>
          </tr>
        </thead>
        <tbody ref={body}>
          {data.clusters.map((one) => (
            <Row key={one.id} cluster={one} />
          ))}
        </tbody>
      </table>
      <Pagination
        newest={filter.cursor && hrefOf({ ...filter, cursor: "" })}
        older={data.next_cursor && hrefOf({ ...filter, cursor: data.next_cursor })}
        names={["First", "Next"]}
      />
    </>
  );
}

function Row({ cluster }: { cluster: Schemas["ClusterSummary"] }) {
  const title = cluster.order_numbers.length
    ? cluster.order_numbers.join(", ")
    : `No purchase order (${shortId(cluster.id)})`;
  return (
    <tr>
      <td data-label="Status">
        <ClusterStatus status={cluster.status} />
        {cluster.is_computing && <span class="muted file-name">comparison is being updated</span>}
      </td>
      <td data-label="Purchase order">
        <a href={navigate.href(`clusters/${cluster.id}`, { tenant: cluster.tenant })}>{title}</a>
        <span class="muted file-name">
          <span class="line-clamp">{cluster.reason}</span>
        </span>
      </td>
      <td data-label="Supplier">{cluster.supplier ?? <span class="muted">not extracted</span>}</td>
      <td data-label="Ordered (net)" class="count">
        {formatMoney(cluster.ordered, cluster.currency)}
      </td>
      <td data-label="Delivered (net)" class="count">
        {formatMoney(cluster.delivered, cluster.currency)}
      </td>
      <td data-label="Billed (net)" class="count">
        {formatMoney(cluster.billed, cluster.currency)}
      </td>
      <td data-label="Amount affected" class="count">
        <b>{formatMoney(cluster.affected, cluster.currency)}</b>
      </td>
      <td data-label="Age">
        <time datetime={cluster.waiting_since} title={formatMoment(new Date(cluster.waiting_since))}>
          {ageOf(cluster.waiting_since)}
        </time>
      </td>
    </tr>
  );
}

// Returns the whole days since a time, as text.
function ageOf(at: string) {
  const days = Math.floor((Date.now() - Date.parse(at)) / DAY);
  return days < 1 ? "today" : days === 1 ? "1 day" : `${formatNumber(days)} days`;
}

function EmptyList({ filter }: { filter: ListFilter }) {
  if (filter.supplier || filter.number || filter.cursor) {
    return <Notice title="No results">No clusters match. Clear the search or choose another status.</Notice>;
  }
  if (filter.status === "open") {
    return (
      <Notice title="No open clusters">
        All documents are matched, or their differences are accepted. New clusters appear here automatically.
      </Notice>
    );
  }
  if (filter.status === ALL) {
    return <Notice title="No clusters yet">Documents appear here once they are matched.</Notice>;
  }
  return <Notice title="No clusters">No clusters have this status.</Notice>;
}
