"""The connection settings of the Spark Cassandra Connector, with verified host names."""

from __future__ import annotations

from tidemark.settings import Settings

VERIFYING = ("datastax-java-driver.advanced.ssl-engine-factory.hostname-validation", "true")
"""The system property that makes the JVMs of driver and executors verify host names.

The connector switches verification off and has no option for it, but system properties override
what it sets in the Java driver. Source: `DefaultConnectionFactory` of the connector 3.5.1 and
`DefaultProgrammaticDriverConfigLoaderBuilder` of the Java driver 4.18. A profile file of the Java
driver (`spark.cassandra.connection.config.profile.path`) would work too, but would put the
passwords into files on every machine.
"""
_SSL = "spark.cassandra.connection.ssl"
_CIPHER_SUITES = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
)
"""The connector's default suites have no forward secrecy, and TLS 1.3 does not have them."""


def executor_options(settings: Settings) -> str:
    """Return the JVM options that executors need, none of them secret; may be empty."""
    return f"-D{'='.join(VERIFYING)}" if settings.is_cassandra_encrypted else ""


def conf(settings: Settings) -> dict[str, str]:
    """Return the connector's settings, passwords included: never for a command line."""
    hosts = settings.contact_points
    conf = {
        "spark.cassandra.connection.host": ",".join(f"{host}:{port}" for host, port in hosts),
        "spark.cassandra.connection.port": str(hosts[0][1]),
    }
    if settings.cassandra_local_dc:
        conf["spark.cassandra.connection.localDC"] = settings.cassandra_local_dc
    if settings.is_cassandra_encrypted:
        conf |= _tls(settings)
    if settings.cassandra_username:
        conf["spark.cassandra.auth.username"] = settings.cassandra_username
        conf["spark.cassandra.auth.password"] = settings.cassandra_password.get_secret_value()
    return conf


def _tls(settings: Settings) -> dict[str, str]:
    key, trust = settings.cassandra_ssl_keystore, settings.cassandra_ssl_truststore
    passwords = {
        "keyStore": (key, settings.cassandra_ssl_keystore_password),
        "trustStore": (trust, settings.cassandra_ssl_truststore_password),
    }
    conf = {
        f"{_SSL}.enabled": "true",
        f"{_SSL}.enabledAlgorithms": ",".join(_CIPHER_SUITES),
        f"{_SSL}.clientAuth.enabled": str(key is not None).lower(),
    }
    for name, (file, password) in passwords.items():
        if file is not None:
            conf[f"{_SSL}.{name}.path"] = str(file.absolute())
            conf[f"{_SSL}.{name}.password"] = password.get_secret_value()
    return conf
