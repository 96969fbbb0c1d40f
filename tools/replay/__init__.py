"""`counterfoil replay`: process many invoices in one file with a short visibility timeout.

This once caused an incident: queued messages became visible again before their turn, used up their receives, and ended
as dead letters without any attempt. The replay reproduces the situation on the local cloud, with the app as deployed,
and checks the outcome of every message.
"""
