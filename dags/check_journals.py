"""Fails with an import error that names each entry of the file of journals that cannot be used.

This file has no DAG. In the other files such an entry has no DAGs, so that those of the other
journals stay.
"""

from __future__ import annotations

from tidemark_airflow.journals.file import require_usable

require_usable()
