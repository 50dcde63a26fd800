"""The image's entrypoint: builds what needs a secret, then becomes the command.

    python -m embedded.container airflow scheduler

Neither the image nor a command line holds a secret: each container reads those files of
`/run/secrets` that docker-compose.yml gives it.
"""

from __future__ import annotations

import os
import sys

from embedded.container import environment
from embedded.container.secrets import Secrets
from embedded.errors import EmbeddedError

_GROUP_WRITES = 0o002
"""What Airflow's and Spark's containers write into one directory is of one group."""


def main(command: list[str]) -> None:
    """Become the command, with the environment that the secrets of this container make."""
    try:
        if not command:
            raise EmbeddedError("no command is given", "docker-compose.yml", "name one")
        variables = {**os.environ, **environment.build(Secrets(), os.environ)}
        os.umask(_GROUP_WRITES)
        try:
            os.execvpe(command[0], command, variables)  # noqa: S606
        except OSError as error:
            raise EmbeddedError(
                f"the command cannot be run: {error.strerror}", command[0], "check its name"
            ) from None
    except EmbeddedError as error:
        print(f"container: error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
