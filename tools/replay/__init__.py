"""`counterfoil replay`: many invoices in one file, few at once, and a visibility far shorter than their queue.

That is the situation in which work was once given out again and again while it waited: messages came back before their
turn, were counted as received, and ended as dead letters of work that never ran. The replay makes it happen on the
local cloud, with the app as it is deployed, and checks what became of every message.
"""
