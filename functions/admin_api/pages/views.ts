// Views by first path segment, in navigation order. A new view requires an entry here and its name in VIEWS in
// console.py. Each view has a folder. Shared components are in ui/.

import type { FunctionComponent } from "preact";
import { Audit } from "./audit/audit";
import { Cluster } from "./clusters/cluster";
import { Clusters } from "./clusters/clusters";
import { DeadLetterView } from "./dead_letters/dead_letter";
import { DeadLetters } from "./dead_letters/dead_letters";
import { Document } from "./documents/document";
import { Documents } from "./documents/documents";
import { Mail } from "./mail/mail";
import { Offers } from "./offers/offers";
import { OfferPage } from "./offers/pool";
import { Operation, Operations } from "./operations/operations";
import { Overview } from "./overview/overview";
import { Review } from "./reviews/review";
import { Reviews } from "./reviews/reviews";
import { Task } from "./tasks/task";
import { Tasks } from "./tasks/tasks";

// `view` is shown for paths with one segment, `detail` for longer paths. `id` is the second segment. A view without
// `title` is not in the navigation; `parent` is marked as current instead. `worksWithoutTenant`: no tenant is required.
export type View = {
  title?: string;
  parent?: string;
  worksWithoutTenant?: boolean;
  view: FunctionComponent;
  detail?: FunctionComponent<{ id: string; segments: string[] }>;
};
export type Views = Record<string, View>;

export const VIEWS: Views = {
  overview: { title: "Overview", view: Overview, worksWithoutTenant: true },
  clusters: { title: "Clusters", view: Clusters, detail: Cluster },
  documents: { title: "Documents", view: Documents, detail: Document },
  "dead-letters": { title: "Dead letters", view: DeadLetters, detail: DeadLetterView },
  reviews: { title: "Review", view: Reviews, detail: Review },
  mail: { title: "Mail", view: Mail },
  tasks: { title: "Tasks", view: Tasks, detail: Task },
  offers: { title: "Offers", view: Offers, detail: OfferPage },
  operations: { parent: "dead-letters", view: Operations, detail: Operation },
  audit: { title: "Audit", view: Audit },
};
