"""Whether a service of this image answers, for its health check: the image has no curl.

    python -m embedded.container.health http://localhost:8974/health

The status is 0 if it answers well. By https its certificate is checked against the secret `tls_ca`.
"""

from __future__ import annotations

import ssl
import sys
import urllib.request
from urllib.error import URLError

from embedded.container.secrets import Secrets

_PATIENCE_S = 8
"""Less than the health check's own timeout, so that the reason is in its log."""


def main(url: str) -> None:
    """End with status 1 and the reason unless the service answers with a status below 400."""
    certificates = Secrets().path("tls_ca")
    context = ssl.create_default_context(cafile=certificates) if certificates else None
    try:
        # The address is of docker-compose.yml.
        urllib.request.urlopen(url, timeout=_PATIENCE_S, context=context)  # noqa: S310
    except (URLError, OSError) as error:
        sys.exit(f"{url}: {error}")


if __name__ == "__main__":
    main(sys.argv[1])
