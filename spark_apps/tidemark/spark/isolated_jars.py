"""Sets of jars for single jobs, so that several versions of a class can be in use.

Each executor keeps a class loader for each set of artifacts, which Spark has for Spark Connect. The
thread that starts a job determines its set; a Python thread has its own thread in the JVM. A job
without a set would get the jars of all sets, and so would all later jobs: while a set is in use,
each job must have a set, even if it is empty.
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
"""The time when a jar was added: executors do not fetch a jar again whose time is the same. py4j
would turn a lower number into an Integer, and Spark needs a Long."""
_MUTEX = threading.Lock()
_USERS = Counter[str]()


class IsolatedJars:
    """A set of jars in addition to the jars of the application."""

    def __init__(self, spark: SparkSession, jars: Sequence[Path] = ()) -> None:
        """Bind to files; a file name must mean the same file in all sets."""
        self._spark = spark
        self.functions = set[str]()
        """The names of the functions that `register` has registered."""
        paths = "\n".join(map(str, jars))
        self._name = f"tidemark-{hashlib.sha256(paths.encode()).hexdigest()[:32]}"
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
            AnalysisException: there is no such class, or it implements no such interface.
            Py4JJavaError: the class cannot be instantiated.
        """
        thread = self._thread()
        previous = thread.getContextClassLoader()
        thread.setContextClassLoader(self._loader)
        try:
            gateway.session_of(session).udf().registerJava(name, java_class, None)
        finally:
            thread.setContextClassLoader(previous)
        self.functions.add(name)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the jobs that this thread starts have these jars."""
        none = named(self._spark, "scala.None$")
        state = named(self._spark, "org.apache.spark.JobArtifactState")(self._name, none)
        thread_state = self._state_of_threads()
        previous = thread_state.get()
        added_jars = gateway.context_of(self._spark).sc().addedJars()
        with _MUTEX:
            _USERS[self._name] += 1
            added_jars.put(self._name, self._added)
        thread_state.set(named(self._spark, "scala.Some")(state))
        try:
            yield
        finally:
            thread_state.set(previous)
            with _MUTEX:
                _USERS[self._name] -= 1
                if not _USERS[self._name]:
                    added_jars.remove(self._name)

    def _state_of_threads(self) -> Any:
        """Return Spark's ThreadLocal, which Scala code can set only around a Scala function."""
        owner = named(self._spark, "org.apache.spark.JobArtifactSet$")
        field = owner.getClass().getDeclaredField("currentClientSessionState")
        field.setAccessible(True)
        return field.get(owner)

    def _thread(self) -> Any:
        return named(self._spark, "java.lang.Thread").currentThread()
