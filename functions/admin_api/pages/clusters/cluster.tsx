// One cluster: a graph of its documents, their matches, line items and variances.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { DocumentLink, documentTitle, Supplier, toSummary, type WithText } from "../documents/summary";
import { DifferenceDialog, MergeDialog, SplitDialog } from "../reviews/decisions";
import { hasRole } from "../roles";
import { navigate, useRoute } from "../router";
import { ErrorNotice, Loading, Notice, Pagination, Status, SuccessNotice, useTitle } from "../ui/components";
import { MatchScore } from "../ui/evidence";
import { formatDecimal, formatMoney, formatNumber, shortId, Time } from "../ui/format";
import { UserName } from "../ui/user_name";
import { Graph } from "./graph";
import { ClusterStatus } from "./status";

type Variance = Schemas["ClusterVariance"];
type Line = Schemas["ClusterLine"];
type Quantity = (typeof QUANTITIES)[number];
type ClusterDocument = WithText<Schemas["DocumentSummary"]>;
// `documents` includes the contracts; `ownIds` does not.
type ShownCluster = Omit<Schemas["Cluster"], "documents"> & { documents: ClusterDocument[]; ownIds: Set<string> };
type OpenDialog =
  | { what: "split" | "merge"; doc: ClusterDocument }
  | { what: "accept" | "dispute"; variance: Variance };

const MAX_SHOWN = 60; // documents per page
const QUANTITIES = ["ordered", "delivered", "received", "rejected", "billed", "credited"] as const;
const COMPARED: readonly string[] = ["delivered", "received", "billed"]; // compared with the ordered quantity
// Returns the title of a cluster: its purchase orders, or its id if it has none.
function clusterTitle({ id, order_numbers }: Pick<ShownCluster, "id" | "order_numbers">) {
  if (!order_numbers.length) {
    return `Cluster ${shortId(id)}`;
  }
  return `Purchase order${order_numbers.length > 1 ? "s" : ""} ${order_numbers.join(", ")}`;
}
const capitalize = (name: string) => `${name[0].toUpperCase()}${name.slice(1)}`;

export function Cluster({ id }: { id: string }) {
  const route = useRoute();
  const cursor = route.query.get("cursor") ?? "";
  const { data, error, reload } = useQuery<Schemas["Cluster"]>(
    [`admin/clusters/${encodeURIComponent(id)}`, { limit: MAX_SHOWN, cursor }],
    {
      every: cursor ? 0 : POLL_FAST_SECONDS,
    },
  );
  const cluster = data && {
    ...data,
    documents: [...data.contracts, ...data.documents].map(toSummary),
    ownIds: new Set(data.documents.map((one) => one.id)),
  };
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const [notice, setNotice] = useState<string | null>(null);
  useTitle(cluster ? clusterTitle(cluster) : "Cluster");
  const tenant = cluster?.tenant ?? route.query.get("tenant");
  const back = (
    <p>
      <a href={navigate.href("clusters", { tenant })}>All clusters</a>
    </p>
  );
  if (!cluster) {
    return (
      <>
        {back}
        {error?.status === 404 ? (
          <Notice isWholePage title="Cluster not found">
            Its documents may belong to another cluster now, or to a tenant that you cannot access. Search for one of
            its documents.
          </Notice>
        ) : (
          <>
            <h1>Cluster</h1>
            {error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="the cluster" />}
          </>
        )}
      </>
    );
  }
  const close = () => setDialog(null);
  const done = (sentence: string) => () => {
    close();
    setNotice(sentence);
    reload();
  };
  const { comparison } = cluster;
  return (
    <>
      {back}
      <h1>
        {cluster.status && (
          <>
            <ClusterStatus status={cluster.status} />{" "}
          </>
        )}
        {clusterTitle(cluster)}
      </h1>
      {error && <ErrorNotice error={error} reload={reload} />}
      {notice && <SuccessNotice>{notice}</SuccessNotice>}
      <Reasons cluster={cluster} />
      <LinkList cluster={cluster} current={route.query.get("document")} />
      <DocumentTable cluster={cluster} cursor={cursor} openDialog={setDialog} />
      {comparison && comparison.lines.length > 0 && (
        <LineTable lines={comparison.lines} total={comparison.lines_total} />
      )}
      {comparison && comparison.variances.length > 0 && <Variances comparison={comparison} openDialog={setDialog} />}
      {comparison && comparison.warnings.length > 0 && (
        <section aria-labelledby="warnings">
          <h2 id="warnings">Warnings</h2>
          <ul>
            {comparison.warnings.map((warning) => (
              <li>{warning}</li>
            ))}
          </ul>
        </section>
      )}
      {dialog?.what === "split" && (
        <SplitDialog
          doc={dialog.doc}
          close={close}
          reload={reload}
          done={done(`${documentTitle(dialog.doc)} was removed from the cluster.`)}
        />
      )}
      {dialog?.what === "merge" && (
        <MergeDialog
          doc={dialog.doc}
          close={close}
          reload={reload}
          done={done(`${documentTitle(dialog.doc)} was merged.`)}
        />
      )}
      {dialog && "variance" in dialog && (
        <DifferenceDialog
          cluster={cluster.id}
          variance={dialog.variance}
          verdict={dialog.what}
          close={close}
          reload={reload}
          done={done(
            dialog.what === "accept"
              ? "The difference was accepted. The comparison is being updated."
              : "The difference was disputed. The comparison is being updated.",
          )}
        />
      )}
    </>
  );
}

function Reasons({ cluster }: { cluster: ShownCluster }) {
  const sentences = cluster.error
    ? [`The comparison failed: ${cluster.error}`]
    : [
        ...(cluster.comparison?.reasons ?? []),
        ...(cluster.is_computing
          ? [cluster.comparison ? "The comparison is being updated." : "The comparison is in progress."]
          : []),
      ];
  return (
    <div class="reasons">
      {sentences.map((sentence) => (
        <p>{sentence}</p>
      ))}
      {!sentences.length && <p>{cluster.comparison ? "Nothing to compare." : "Not compared yet."}</p>}
      {cluster.computed_at && (
        <p class="muted">
          Cluster {shortId(cluster.id)}, compared on <Time at={cluster.computed_at} showsUtc />
        </p>
      )}
    </div>
  );
}

// The graph and the list of matches, with evidence for the selected match.
function LinkList({ cluster, current }: { cluster: ShownCluster; current: string | null }) {
  const { documents, matches } = cluster;
  const [chosen, setChosen] = useState<number | null>(null);

  const title = (id: string) => {
    const known = documents.find((doc) => doc.id === id);
    return known ? documentTitle(known) : `document ${shortId(id)}`;
  };
  return (
    <section aria-labelledby="links">
      <h2 id="links">Documents and matches</h2>
      <Graph
        docs={documents}
        links={matches.map((edge) => ({ a: edge.document_a_id, b: edge.document_b_id, decided_by: edge.decided_by }))}
        tenant={cluster.tenant}
        current={current}
        chosen={chosen}
        choose={(number) => setChosen(chosen === number ? null : number)}
      />
      {matches.length ? (
        <ul class="matches">
          {matches.map((edge, number) => (
            <li key={`${edge.document_a_id} ${edge.document_b_id}`} class={chosen === number ? "selected" : ""}>
              <button
                type="button"
                class="link"
                aria-expanded={chosen === number}
                onClick={() => setChosen(chosen === number ? null : number)}
              >
                {title(edge.document_a_id)} ↔ {title(edge.document_b_id)}
              </button>
              {chosen === number && (
                <div class="match-reasons">
                  {edge.reasoning && <p>{edge.reasoning}</p>}
                  <MatchScore
                    match={edge}
                    caption={`Evidence for ${title(edge.document_a_id)} and ${title(edge.document_b_id)}`}
                  />
                </div>
              )}
            </li>
          ))}
        </ul>
      ) : (
        <p class="muted">No matches yet.</p>
      )}
      <ShownCount shown={matches.length} total={cluster.matches_total} noun="matches" />
    </section>
  );
}

function DocumentTable({
  cluster,
  cursor,
  openDialog,
}: {
  cluster: ShownCluster;
  cursor: string;
  openDialog: (dialog: OpenDialog) => void;
}) {
  const canDecide = hasRole("operator");
  return (
    <section aria-labelledby="documents">
      <h2 id="documents">Documents</h2>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Document</th>
            <th scope="col">Supplier</th>
            <th scope="col">Date</th>
            <th scope="col" class="count">
              Total (gross)
            </th>
            <th scope="col">File</th>
            {canDecide && (
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {cluster.documents.map((doc) => (
            <tr key={doc.id}>
              <td data-label="Document">
                <DocumentLink doc={doc} tenant={cluster.tenant} />
              </td>
              <td data-label="Supplier">
                <Supplier doc={doc} />
              </td>
              <td data-label="Date">{doc.date}</td>
              <td data-label="Total (gross)" class="count">
                {doc.total}
                {doc.isNet && " net"}
              </td>
              <td data-label="File" class="file-name">
                {doc.file}
              </td>
              {canDecide && (
                <td>
                  <div class="buttons">
                    {cluster.ownIds.has(doc.id) && cluster.documents_total > 1 && (
                      <button
                        type="button"
                        class="small"
                        aria-label={`Remove from the cluster: ${documentTitle(doc)}`}
                        onClick={() => openDialog({ what: "split", doc })}
                      >
                        Remove…
                      </button>
                    )}
                    <button
                      type="button"
                      class="small"
                      aria-label={`Merge with another document: ${documentTitle(doc)}`}
                      onClick={() => openDialog({ what: "merge", doc })}
                    >
                      Merge…
                    </button>
                  </div>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      <ShownCount shown={cluster.ownIds.size} total={cluster.documents_total} noun="documents" />
      <Pagination
        newest={cursor && navigate.href(`clusters/${cluster.id}`, { tenant: cluster.tenant })}
        older={
          cluster.next_cursor &&
          navigate.href(`clusters/${cluster.id}`, { tenant: cluster.tenant, cursor: cluster.next_cursor })
        }
        names={["First", "Next"]}
      />
    </section>
  );
}

// Returns a line item's billed unit price, or "" if no invoice states a price or the invoices differ.
function billedPrice(line: Line) {
  const prices = new Set(
    line.parts.filter((part) => part.role === "billed" && part.unit_price).map((part) => part.unit_price),
  );
  return prices.size === 1 ? [...prices][0] : "";
}

function LineTable({ lines, total }: { lines: Line[]; total: number }) {
  const shown = QUANTITIES.filter((name) => lines.some((line) => line[name] !== null));
  const differ = lines.some((line) => billedPrice(line) && billedPrice(line) !== line.price);
  return (
    <section aria-labelledby="lines">
      <h2 id="lines">Line items</h2>
      <div class="scrollable" tabindex={0} role="region" aria-label="Table of line items">
        <table class="rows lines">
          <thead>
            <tr>
              <th scope="col">Line item</th>
              <th scope="col">Article</th>
              <th scope="col">Unit</th>
              {shown.map((name) => (
                <th scope="col" class="count">
                  {capitalize(name)}
                </th>
              ))}
              <th scope="col" class="count">
                Price
              </th>
              {differ && (
                <th scope="col" class="count">
                  Billed price
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {lines.map((line) => {
              const differs = (name: Quantity) =>
                COMPARED.includes(name) && ![line[name], line.ordered].includes(null) && line[name] !== line.ordered;
              const billed = billedPrice(line);
              return (
                <tr>
                  <td data-label="Line item">{line.line}</td>
                  <td data-label="Article">{[line.article, line.description].filter(Boolean).join(" · ")}</td>
                  <td data-label="Unit">{line.unit_name}</td>
                  {shown.map((name) => (
                    <td data-label={capitalize(name)} class="count">
                      {differs(name) ? (
                        <DifferingValue>{formatDecimal(line[name])}</DifferingValue>
                      ) : (
                        formatDecimal(line[name])
                      )}
                    </td>
                  ))}
                  <td data-label="Price" class="count">
                    {formatMoney(line.price, line.currency)}
                  </td>
                  {differ && (
                    <td data-label="Billed price" class="count">
                      {billed && billed !== line.price ? (
                        <DifferingValue>{formatMoney(billed, line.currency)}</DifferingValue>
                      ) : (
                        formatMoney(billed, line.currency)
                      )}
                    </td>
                  )}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <ShownCount shown={lines.length} total={total} noun="line items" />
    </section>
  );
}

function ShownCount({ shown, total, noun }: { shown: number; total: number; noun: string }) {
  return (
    total > shown && (
      <p class="muted">
        {formatNumber(shown)} of {formatNumber(total)} {noun} are shown.
      </p>
    )
  );
}

const DifferingValue = ({ children }: { children: ComponentChildren }) => (
  <b class="differs">
    {children}
    <span class="visually-hidden"> (differs)</span>
  </b>
);

function Variances({
  comparison,
  openDialog,
}: {
  comparison: Schemas["ClusterComparison"];
  openDialog: (dialog: OpenDialog) => void;
}) {
  return (
    <section aria-labelledby="variances">
      <h2 id="variances">Differences</h2>
      <ul class="variances">
        {comparison.variances.map((variance) => (
          <Variance variance={variance} openDialog={openDialog} />
        ))}
      </ul>
      <ShownCount shown={comparison.variances.length} total={comparison.variances_total} noun="differences" />
    </section>
  );
}

function stateOf(variance: Variance): [string, string] {
  if (variance.decided_by) {
    return [variance.decision ?? "resolved", variance.decided_by];
  }
  if (variance.within_tolerance) {
    return ["within tolerance", ""];
  }
  return variance.awaited_deliveries ? ["waiting", variance.awaited_deliveries] : [variance.decision ?? "open", ""];
}

// Shows a sentence that contains a user's subject with the user's email address.
function NamedUser({ text, user }: { text: string; user?: string | null }) {
  const at = user ? text.lastIndexOf(` by ${user} on `) : -1;
  if (!user || at < 0) {
    return <>{text}</>;
  }
  const start = at + " by ".length;
  return (
    <>
      {text.slice(0, start)}
      <UserName value={user} />
      {text.slice(start + user.length)}
    </>
  );
}

function Variance({ variance, openDialog }: { variance: Variance; openDialog: (dialog: OpenDialog) => void }) {
  const [state, more] = stateOf(variance);
  const canDecide = variance.tolerance !== null && variance.expected !== null && variance.actual !== null;
  return (
    <li>
      <p>
        <Status status={state} /> <b>{variance.label}</b>
      </p>
      <p>
        <NamedUser text={`${variance.message} ${more}`} user={variance.decision_by} />
      </p>
      {canDecide && hasRole("operator") && (
        <p class="buttons">
          {!variance.decided_by && (
            <button type="button" onClick={() => openDialog({ what: "accept", variance })}>
              Accept
            </button>
          )}
          {variance.decision !== "disputed" && (
            <button type="button" onClick={() => openDialog({ what: "dispute", variance })}>
              Dispute
            </button>
          )}
        </p>
      )}
    </li>
  );
}
