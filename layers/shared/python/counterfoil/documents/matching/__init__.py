"""Matching: which documents of a tenant belong together.

Three calls match a document. `prepare` reads it and writes its keys; `search_and_decide` finds its candidates by them,
weighs each pair and decides, without a lock; `write` puts edges and clusters down in the caller's transaction, under
the tenant's matching lock.

The pure part is `normalise` (canonical forms) -> `profile` (a document in them) -> `keys`, and for a pair of documents
`lines` and `compare` (levels of agreement) -> `weights` (bits per level, learned) -> `score` -> `rules` (decisions).
`neighbourhood` reads what a decision needs, `decide` finds out which decisions are touched,
`judge` asks a language model about what rules leave in doubt, `store` has the SQL.

Why the order of arrival makes no difference
--------------------------------------------
The edges of a tenant are a function E of the set D of its documents, and not of the order in which they came:

* A link has a child and a parent (an invoice and its order; of two copies, the later received). It is decided by the
  child.
* What a child c decides depends on c and on the documents that its keys lead to: the bearers of the numbers that it
  names, its possible copies, and, for a kind of parent that its numbers do not settle, the documents of that kind
  between the same parties in the same quarters, and what others that name those leave of them. Of each of them it
  depends on the contents and on one flag, whether it is a copy; and that flag depends on the contents of a document and
  of its possible copies.
* What follows through an order or a delivery depends on decisions of that kind alone, never on other consequences. An
  invoice that has neither follows the deliveries that name the same order, where they have none either.
* Keys lead to bounded groups. A key that more than MAX_HOLDERS documents hold leads to nobody, whoever asks; so this,
  too, is a property of D.

Matching a document d maintains E: all decisions are made again whose inputs d changes, each from all of its inputs
(`decide` lists them). A decision that a number settles beyond what similar documents could say against it is not made
again when a merely similar document arrives, since it does not look at similar documents.

Concurrency: let W be the documents whose write has been committed. Writes of a tenant happen one after another (the
lock), and keys are committed before. A write uses what its search read only if under the lock no row with a key that
was followed is newer than the search's snapshot, and no edge that was read is another one; else it searches again. So
each write decides as if it had searched under the lock. For a child c and a document d in its context, the later one of
their two writes sees the keys of both, and decides c again; so after the last write every decision has been made from
all of its inputs, and the edges are E(D), whatever the interleaving. A write may see a document that has keys and no
write of its own yet: it may link to it, and the write still to come finds nothing to change there. An edge that a
person decided is never deleted and never replaced.

A document that is removed leaves D under the same lock, with all its edges, and those whose decisions it was part of
are matched anew (`departure`). A search from before looks again under the lock, since a document has been removed. One
that is read anew and cannot be matched any more leaves D, too: no search that begins after its new content was
committed finds it, and whoever searched before has keys by then, by which the departure finds them.

Clusters are the connected components of the edges, those to contracts left out, named by their smallest document: a
function of the edges. A write renames the components that it changed.

What a language model judges is part of E as well: E is a function of D and of the answers kept, and an answer, once
kept, never changes (`judge`). Decisions by a judgement are made again with every document that could bring another
question, those by a number alone are not. A write that meets a question without an
answer under the lock writes nothing.

Two bounds are limits of this. A number is waited for by at most MAX_WAITING documents (store): beyond, a bearer that
arrives late finds none of them. And what a tenant has more than MAX_HOLDERS of between the same parties in a quarter is
matched by numbers only.
"""

from counterfoil.documents.matching.departure import Leaving, leaving, left, withdraw
from counterfoil.documents.matching.judge import Judge
from counterfoil.documents.matching.matcher import (
    Decided,
    Prepared,
    Skip,
    Written,
    prepare,
    search_and_decide,
    write,
)
from counterfoil.documents.matching.store import wait_for_lock

__all__ = [
    "Decided",
    "Judge",
    "Leaving",
    "Prepared",
    "Skip",
    "Written",
    "leaving",
    "left",
    "prepare",
    "search_and_decide",
    "wait_for_lock",
    "withdraw",
    "write",
]
