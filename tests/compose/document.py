"""docker-compose.yml as Compose reads it: interpolated, and merged with an override file.

Of Compose's rules these are relied on; `docker compose config`, or the library that it is made of,
gives the same for our files:

- `${NAME:-default}` is the default if NAME is unset or empty, and `$$` is `$`
  (https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md).
- Mappings are merged key by key; lists are appended, `secrets` and `volumes` by their target; what
  comes later replaces `command`, `entrypoint` and `healthcheck.test`
  (https://github.com/compose-spec/compose-spec/blob/main/13-merge.md).
- A service with a profile is started only with its profile, or by its name.
- A secret's file is mounted at /run/secrets/NAME with the owner and the mode that it has on the
  host (https://github.com/docker/compose/issues/9648).
- A new volume takes over what its directory is in the image, owner and mode included.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "docker-compose.yml"
TLS = ROOT / "docker-compose.tls.yml"
IMAGES: dict[str, Any] = json.loads(Path(__file__).with_name("images.json").read_text())
"""Facts of the public images, each with its sources."""
OWN = "tidemark:local"
OWN_BASE = "python:3.11.16-slim-trixie"
_REPLACED = ("command", "entrypoint", "test")
_BY_TARGET = ("secrets", "volumes")
_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\})")


def load(*files: Path, **variables: str) -> dict[str, Any]:
    """Return the merged document of some files, with the variables of `.env`."""
    merged: Any = {}
    for file in files:
        merged = _merge(merged, _interpolate(yaml.safe_load(file.read_text()), variables))
    document: dict[str, Any] = merged
    return {key: value for key, value in document.items() if not key.startswith("x-")}


def _interpolate(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _interpolate(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [_interpolate(part, variables) for part in value]
    if not isinstance(value, str):
        return value

    def replaced(found: re.Match[str]) -> str:
        name = found["name"]
        return "$" if name is None else variables.get(name) or found["default"] or ""

    return _VARIABLE.sub(replaced, value)


def _merge(older: Any, newer: Any, key: str = "") -> Any:
    if isinstance(older, dict) and isinstance(newer, dict):
        both = {name: _merge(older[name], newer[name], name) for name in older if name in newer}
        return {**older, **newer, **both}
    if isinstance(older, list) and isinstance(newer, list) and key not in _REPLACED:
        if key in _BY_TARGET:
            return list({_target(one): one for one in [*older, *newer]}.values())
        return [*older, *newer]
    return newer


def _target(mount: str) -> str:
    source, _, rest = mount.partition(":")
    return rest.removesuffix(":ro") or source


def tag(image: str) -> str:
    """Return the name and tag of an image, without its digest."""
    return image.partition("@")[0]


def words(service: Mapping[str, Any]) -> list[str]:
    """Return the words of a health check, those of a shell's line included."""
    kind, *command = service["healthcheck"]["test"]
    return command if kind == "CMD" else shlex.split(command[0])
