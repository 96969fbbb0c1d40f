"""The signature of a webhook, in the manner of Stripe: HMAC-SHA256 over the time of the try and the body.

    Counterfoil-Signature: t=1767323045,v1=<hex>,v1=<hex>

`t` is in seconds since 1970, and each `v1` is HMAC-SHA256, by one active secret as UTF-8, over `t`, a full stop and the
body. A receiver computes it anew with the secret that it knows, and refuses a time of more than five minutes ago, so
that a call that somebody recorded cannot be made again later.
"""

import hashlib
import hmac
from collections.abc import Sequence

HEADER = "Counterfoil-Signature"


def signature(body: bytes, secrets: Sequence[str], timestamp: int) -> str:
    """The value of HEADER, with one `v1` for each of `secrets`."""
    signed = f"{timestamp}.".encode() + body
    digests = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join([f"t={timestamp}", *(f"v1={digest}" for digest in digests)])
