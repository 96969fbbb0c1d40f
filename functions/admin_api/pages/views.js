// The views, in the order of the navigation. A new view is a line here, and its word in VIEWS of console.py. Each
// view of the navigation has a folder with its subviews; shared modules are next to this file.
//
// By the first word of the path: `title` (without one it is not in the navigation), `view` shows the word alone, `one`
// the second word (as `id`; all are `words`). `under`: its view in the navigation.
// `bare`: it shows unassigned objects, so that no tenant is needed.

import { Audit } from "./audit/audit.js";
import { Clusters } from "./clusters/clusters.js";
import { Cluster } from "./documents/cluster.js";
import { Document } from "./documents/document.js";
import { Documents } from "./documents/documents.js";
import { Letter } from "./letters/letter.js";
import { Letters } from "./letters/letters.js";
import { Mail } from "./mail/mail.js";
import { OfferPage } from "./offers/pool.js";
import { Offers } from "./offers/offers.js";
import { Operation, Operations } from "./letters/operations.js";
import { Overview } from "./overview/overview.js";
import { Review } from "./reviews/review.js";
import { Reviews } from "./reviews/reviews.js";
import { Task } from "./tasks/task.js";
import { Tasks } from "./tasks/tasks.js";

export const VIEWS = {
  overview: { title: "Overview", view: Overview, bare: true },
  clusters: { title: "Clusters", view: Clusters, one: Cluster },
  documents: { title: "Documents", view: Documents, one: Document },
  "dead-letters": { title: "Dead letters", view: Letters, one: Letter },
  reviews: { title: "Review", view: Reviews, one: Review },
  mail: { title: "Mail", view: Mail },
  tasks: { title: "Tasks", view: Tasks, one: Task },
  offers: { title: "Offers", view: Offers, one: OfferPage },
  operations: { under: "dead-letters", view: Operations, one: Operation },
  audit: { title: "Audit", view: Audit },
};
