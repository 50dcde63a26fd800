"""Jars that some jobs have and others do not, so that several versions of a class are in use.

Each executor keeps a class loader for each set of artifacts, as sessions of Spark Connect need it.
The thread that starts a job says which set it has; a thread of Python is one of the JVM. A job of
which no thread says that has the jars of all sets that Spark knows of, and so would all after it:
while a set is in use, each job must have one, if only an empty one.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidemark.spark import gateway
from tidemark.spark.gateway import named

_SINCE = 1 << 32
"""When a jar was added; one that is added again with the same time is not fetched again. Of a lower
number py4j would make an Integer, where Spark has a Long."""
_MUTEX = threading.Lock()
_USERS = Counter[str]()


class IsolatedJars:
    """A set of jars, beside those that the application has anyway."""

    def __init__(self, spark: SparkSession, jars: Sequence[Path] = ()) -> None:
        """Bind to files; those of one name must be the same file in all sets."""
        self._spark = spark
        self.functions = set[str]()
        """The names of the functions that `register` has let a session call."""
        listed = "\n".join(map(str, jars))
        self._name = f"tidemark-{hashlib.sha256(listed.encode()).hexdigest()[:32]}"
        files = [named(spark, "java.io.File")(str(jar)) for jar in jars]
        server = named(spark, "org.apache.spark.SparkEnv").get().rpcEnv().fileServer()
        self._added = named(spark, "scala.collection.concurrent.TrieMap")()
        for file in files:
            self._added.put(server.addJar(file), _SINCE)
        urls = gateway.array(spark, "java.net.URL", [file.toURI().toURL() for file in files])
        self._loader = named(spark, "java.net.URLClassLoader")(
            urls, self._thread().getContextClassLoader()
        )

    def register(self, session: SparkSession, name: str, java_class: str) -> None:
        """Let the SQL of a session call a class, which implements one of UDF0 to UDF22.

        Raises:
            AnalysisException: there is no such class, or it is none of these.
            Py4JJavaError: it cannot be made.
        """
        thread = self._thread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(self._loader)
        try:
            gateway.session_of(session).udf().registerJava(name, java_class, None)
        finally:
            thread.setContextClassLoader(before)
        self.functions.add(name)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the jobs that this thread starts have these jars."""
        none = named(self._spark, "scala.None$")
        state = named(self._spark, "org.apache.spark.JobArtifactState")(self._name, none)
        of_thread = self._state_of_threads()
        before = of_thread.get()
        known = gateway.context_of(self._spark).sc().addedJars()
        with _MUTEX:
            _USERS[self._name] += 1
            known.put(self._name, self._added)
        of_thread.set(named(self._spark, "scala.Some")(state))
        try:
            yield
        finally:
            of_thread.set(before)
            with _MUTEX:
                _USERS[self._name] -= 1
                if not _USERS[self._name]:
                    known.remove(self._name)

    def _state_of_threads(self) -> Any:
        """Return Spark's ThreadLocal, which Scala sets only around a function of Scala."""
        owner = named(self._spark, "org.apache.spark.JobArtifactSet$")
        field = owner.getClass().getDeclaredField("currentClientSessionState")
        field.setAccessible(True)
        return field.get(owner)

    def _thread(self) -> Any:
        return named(self._spark, "java.lang.Thread").currentThread()
