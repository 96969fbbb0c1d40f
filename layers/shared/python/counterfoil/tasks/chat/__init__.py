"""Conversations with a language model: who talks, what was said, and how it is answered.

A message is a task, `chat_completion`. It gets its place in its conversation when the task is accepted, and messages
are answered in that order: a task whose conversation has an earlier message that may still be answered is put off
without spending a try, and is woken by the end of that one, whatever its end is. An answer is written in the
transaction that marks its task succeeded, once for each task. A message whose task failed or was cancelled stays
without an answer, and those after it go on without it.

Its user may delete a conversation (`deletion`), and the watchdog does so when nobody has used it for three months.

Places count up from 1 in each conversation, those of answers among them; none is left out. To take one is to lock the
conversation, so that whoever sees a place sees all those before it.
"""

from counterfoil.tasks.chat.sessions import Entry, NoSessionError, Session, Transcript, listed, owner, transcript

__all__ = ["Entry", "NoSessionError", "Session", "Transcript", "listed", "owner", "transcript"]
"""What people see. The type of task is in `completion`."""
