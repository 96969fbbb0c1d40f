"""Matching: which documents of a tenant belong together.

Two calls match a document. `search_and_decide` reads it, finds its candidates by keys, weighs each pair and decides,
without a lock; `write` puts keys, edges and clusters down in the caller's transaction, under the tenant's matching
lock. `search` and `write_together` do the same in one transaction of the caller's, without a judge: for one document,
and for several at once, which is several times quicker.

The pure part is `normalise` (canonical forms) and `meaning` (buckets of a vector) -> `profile` (a document in them) ->
`keys`, and for a pair of documents `lines` and `compare` (levels of agreement) -> `weights` (bits per level, learned)
-> `score` -> `rules` (decisions). `neighbourhood` is what a decision looks at, `reading` reads it, `decide` finds out
which decisions are touched, `judge` asks a language model about what rules leave in doubt, `store` and `key_rows` have
the SQL. What is left after that waits for a person (`reviews`), and what a person decides about two documents is
written by `decisions`.

Why the order of arrival makes no difference
--------------------------------------------
The edges of a tenant are a function E of the set D of its documents and of the set P of what people decided about pairs
of them (see below), and not of the order in which they came:

* A link has a child and a parent (an invoice and its order; of two copies, the later received). It is decided by the
  child.
* What a child c decides depends on c and on the documents that its keys lead to: the bearers of the numbers that it
  names, its possible copies, and, for a kind of parent that its numbers do not settle, the documents of that kind
  between the same parties in the same quarters, and what others that name those leave of them. Of each of them it
  depends on the contents and on one flag, whether it is a copy; and that flag depends on the contents of a document and
  of its possible copies. Of the similar ones, those count that it considers at all (`rules.considers`), which is a
  matter of the two contents alone.
* What follows through an order or a delivery depends on decisions of that kind alone, never on other consequences. An
  invoice that has neither follows the deliveries that name the same order, where they have none either.
* Keys lead to bounded groups. A key that more than MAX_HOLDERS documents hold leads to nobody, whoever asks; so this,
  too, is a property of D.

Matching a document d maintains E: all decisions are made again whose inputs d changes, each from all of its inputs
(`decide` lists them). A child that looks at similar documents is found by them under what it seeks (`keys.seeks`); one
that a number settles beyond what similar documents could say against it seeks nothing. So these keys are part of a
decision and are written with it, under the lock: who decides a child otherwise than before also says what it seeks now.
A document that was never matched before touches, of those that seek its like, only the ones that consider it; of one
that was, nobody knows any more what it said, and all of them decide again.

Concurrency: writes of a tenant happen one after another (the lock), each with the keys of its document. A write uses
what its search read only if under the lock no row with a key that was followed is newer than the search's snapshot, no
document of the tenant has lost a key since, and no edge that was read is another one; else it searches again. (A
document shares keys with its like, other orders of the supplier or other invoices, and of these it only matters whether
there are more than MAX_HOLDERS now. So newer rows are counted: as many as leave it so change nothing, and what comes
from one supplier at once is not matched one after another.) So each write decides as if it had searched under the
lock. For a child c and a document d in its context, the later one of
their two writes sees the keys of both, and decides c again; so after the last write every decision has been made from
all of its inputs, and the edges are E(D), whatever the interleaving. A document about which a language model is asked
is found by its keys before that: whoever links to it meanwhile leaves nothing to change for the write still to come.

Documents that are matched together are each searched for as if they were alone, on what was read for all of them. One
lock, and one look at what has come in between, serve them all; a document for which that is so is left out. So is one
whose search has read what another one of them writes (`matcher._disturbs`): by the same rule, were the other's write
committed before. The others' writes are the same in any order, and make one. Who is left out is matched by itself.

What people decided is part of E: P holds the last decision about each pair that anybody decided on. A confirmed pair
is an edge, whatever rules say. A rejected one is none: neither is a candidate of the other for any rule, and nothing
links them and no doubt names them. A child knows what was said about it, whether by number or by kind (`rules.Said`):
a confirmed parent settles the number that it bears, or, bearing none of those that the child names, its kind; and one
more confirmed link takes nothing away that rules link. Whether one of two documents is a copy of the other is still a
matter of what they say, where nobody rejected that. What is decided about a pair is read with the edges of both ends
(`store.edges`), and so part of what every decision about either is made from. A decision is written like a match of
both: under the lock, with all decisions made again that the arrival of either would touch, in the same transaction
(`decisions`); only for a document without keys there are none, and its own match, still to come, sees it. A search that
began before a decision was committed looks again (`changed_since`). So after the last write, of a match or of a
decision, all have been made from all of their inputs, whichever came first. A decision leaves P with either document.
It is about these two alone: what was said of a document was not said of its copies.

A document that is removed leaves D under the same lock, with all its edges, and those whose decisions it was part of
are matched anew (`departure`). A search from before looks again under the lock, since a document has been removed. One
that is read anew and cannot be matched any more leaves D, too; and one that is read anew may be found by other keys
than before. Who had found it by a key that is gone, and has been written, decides again with the write that deletes the
key; who has searched and not been written yet looks again, since a key was lost.

Clusters are the connected components of the edges, those to contracts left out, named by their smallest document: a
function of the edges. A write renames the components that it changed.

What is in doubt is a function of the same (`rules.open_doubts`), and written with the edges.

What a language model judges is part of E as well: E is a function of D, P and of the answers kept, A, and an answer,
once kept, never changes (`judge`). Decisions by a judgement are made again with every document that could bring another
question, those by a number alone are not. A write that meets a question without an answer under the lock writes
nothing.

Where nobody is asked, since no model is configured or the budget of questions is used up, a question without an answer
is a doubt left open: E for the answers that there are. To be refused for the budget is no answer, and is not kept. So A
can still grow, by any later match of the document or of one that touches it, and nothing has to be undone for that. A
try that was refused once asks nobody any more, and writes whatever it finds under the lock, questions that came in
between among it; to be put off, it would only be refused again. So no try waits for a budget, and none goes round.

An answer reaches the edges by the try that keeps it: its write comes later, and decides that child again. A write that
did not see the answer comes before that one, which reads what it wrote; or it comes after, and finds the edge that the
answer made under the lock, which it has not read, and looks again. Where the try ends without a write, its answer is in
A, and in the edges as soon as the child is decided again, at the latest when that try is redriven. Which questions a
budget lasts for depends on who comes first: with a short one, A, and so E, are those of the order of arrival, until
what was left open has been matched again.

Where an embedding model is configured, documents are found by what they are about as well. Nearest neighbours would
break all this: whom an index finds depends on what else is there, and when. So a vector becomes keys (`meaning`), and
two documents share one or do not, whoever else there is. Which vectors there are, V, is part of E like the answers: one
that is kept counts for everybody, whatever is configured, and stands while the document says the same (`embeddings`). A
document is matched with the vector that is kept of what it says, or without. To keep one is to read the document anew:
it is done before the match whose write then decides again all that the new keys touch, and whoever read the document
without it looks again, since it is noted like a loss of keys. So V can grow, by any later match of a document whose
model failed, and until then E is that of the vectors there are.

Two bounds are limits of this. A number is waited for by at most MAX_WAITING documents (`key_rows`): beyond, a bearer
that arrives late finds none of them. And what a tenant has more than MAX_HOLDERS of between the same parties in a
quarter is matched by numbers only.
"""

from counterfoil.documents.matching.judge import Embedder, Judge
from counterfoil.documents.matching.matcher import (
    Decided,
    Skip,
    Written,
    WrittenTogether,
    search,
    search_and_decide,
    write,
    write_together,
)
from counterfoil.documents.matching.people import (
    Leaving,
    Settled,
    best_pair,
    clusters,
    leaving,
    left,
    matchable,
    members,
    pairs_of,
    settle,
    withdraw,
)
from counterfoil.documents.matching.sql import Decision, Pair, Verdict, note_loss, wait_for_lock

__all__ = [
    "Decided",
    "Decision",
    "Embedder",
    "Judge",
    "Leaving",
    "Pair",
    "Settled",
    "Skip",
    "Verdict",
    "Written",
    "WrittenTogether",
    "best_pair",
    "clusters",
    "leaving",
    "left",
    "matchable",
    "members",
    "note_loss",
    "pairs_of",
    "search",
    "search_and_decide",
    "settle",
    "wait_for_lock",
    "withdraw",
    "write",
    "write_together",
]
