"""The maker of include/schemas: JSON schemas of the definitions' headers, for editors.

`python -m tests.schemas` writes the files; a unit test fails when they are out of date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.repository import REPOSITORY
from tidemark.project.definition.header import ProjectionHeader
from tidemark.purge.policies.model import Policies
from tidemark.tag_write.rules import RuleHeader
from tidemark.user_files.form import HeaderModel
from tidemark.user_files.journals import Journals
from tidemark.validate.user_checks.definition import CheckHeader

DIRECTORY = REPOSITORY / "include" / "schemas"
PLUGIN = REPOSITORY / "plugins" / "tidemark_airflow" / "journals"
"""The plugin's copy of a schema, by which the DAGs check entries without the library."""
FORMS: Mapping[str, type[HeaderModel]] = {
    "check.schema.json": CheckHeader,
    "journals.schema.json": Journals,
    "projection.schema.json": ProjectionHeader,
    "retention.schema.json": Policies,
    "tag_rule.schema.json": RuleHeader,
}
_NO_DEFAULT: tuple[object, ...] = (None, "", [])


def schema(form: type[HeaderModel]) -> dict[str, Any]:
    """Return a form's schema without pydantic's titles and empty defaults, useless in editors."""
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **form.model_json_schema()}
    return {**_useful(made), "title": form.__doc__}


def text(form: type[HeaderModel]) -> str:
    return json.dumps(schema(form), indent=2, ensure_ascii=False) + "\n"


def _useful(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _useful(part)
            for key, part in value.items()
            if key != "title" and not (key == "default" and part in _NO_DEFAULT)
        }
    return [_useful(part) for part in value] if isinstance(value, list) else value


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for name, form in FORMS.items():
        (DIRECTORY / name).write_text(text(form))
    (PLUGIN / "journals.schema.json").write_text(text(Journals))
