"""`counterfoil replay`: process many invoices in one file.

Such a file once caused an incident: queued messages became visible again before they were processed, used up their
receives, and became dead letters without any attempt. The replay reproduces the situation in the local cloud, with the
deployed app and a short visibility timeout, and checks the outcome of every message.
"""
