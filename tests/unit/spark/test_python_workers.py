"""The packages that Spark's Python workers must have."""

from __future__ import annotations

from embedded.spark.worker_packages import NEEDED
from tidemark.spark.python_workers import OF_POSTGRES, PACKAGES, _faults, _versions


def test_a_worker_without_psycopg_cannot_write_to_postgres() -> None:
    here = dict(_versions(PACKAGES | OF_POSTGRES))
    there = [(name, "" if name == "psycopg" else version) for name, version in here.items()]
    assert list(_faults(here, there)) == ["no psycopg"]


def test_the_archive_has_all_packages_that_workers_must_have() -> None:
    assert {*PACKAGES.values(), *OF_POSTGRES.values()} <= set(NEEDED)
    # Without its compiled part, psycopg needs the libpq of the worker's machine.
    assert "psycopg-binary" in NEEDED
