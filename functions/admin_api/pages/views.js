// The views, in the order of the navigation. A further one is a line here, and its word in VIEWS of console.py. Each
// view of the navigation has a folder, with what is reached from it; what they share is beside this file.
//
// By the first word of the path: `title` (without one it is not in the navigation), `view` shows the word alone, `one`
// what the second word names (as `id`; all of them are `words`). `under`: which view of the navigation it belongs to.
// `bare`: it shows what is no tenant's, so that none has to be chosen.

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
