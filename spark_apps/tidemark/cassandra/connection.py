"""How the Spark Cassandra Connector connects; by itself it verifies no host name."""

from __future__ import annotations

from tidemark.settings import Settings

VERIFYING = ("datastax-java-driver.advanced.ssl-engine-factory.hostname-validation", "true")
"""The system property by which host names are verified, in the driver's JVM and the executors'.

The connector switches that off and has no option for it; but the Java driver puts system properties
before what the connector sets. Source: `DefaultConnectionFactory` of the connector 3.5.1 and
`DefaultProgrammaticDriverConfigLoaderBuilder` of the Java driver 4.18. A profile file of the Java
driver (`spark.cassandra.connection.config.profile.path`) would do it too, and would put the
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
"""The connector's default is two suites without forward secrecy, which TLS 1.3 does not have."""


def executor_options(settings: Settings) -> str:
    """Return the options that the JVMs of executors need, none of them secret; may be empty."""
    return f"-D{'='.join(VERIFYING)}" if settings.is_cassandra_encrypted else ""


def conf(settings: Settings) -> dict[str, str]:
    """Return the connector's settings, passwords included: never for a command line."""
    hosts = settings.contact_points
    made = {
        "spark.cassandra.connection.host": ",".join(f"{host}:{port}" for host, port in hosts),
        "spark.cassandra.connection.port": str(hosts[0][1]),
    }
    if settings.cassandra_local_dc:
        made["spark.cassandra.connection.localDC"] = settings.cassandra_local_dc
    if settings.is_cassandra_encrypted:
        made |= _tls(settings)
    if settings.cassandra_username:
        made["spark.cassandra.auth.username"] = settings.cassandra_username
        made["spark.cassandra.auth.password"] = settings.cassandra_password.get_secret_value()
    return made


def _tls(settings: Settings) -> dict[str, str]:
    key, trust = settings.cassandra_ssl_keystore, settings.cassandra_ssl_truststore
    passwords = {
        "keyStore": (key, settings.cassandra_ssl_keystore_password),
        "trustStore": (trust, settings.cassandra_ssl_truststore_password),
    }
    made = {
        f"{_SSL}.enabled": "true",
        f"{_SSL}.enabledAlgorithms": ",".join(_CIPHER_SUITES),
        f"{_SSL}.clientAuth.enabled": str(key is not None).lower(),
    }
    for name, (file, password) in passwords.items():
        if file is not None:
            made[f"{_SSL}.{name}.path"] = str(file.absolute())
            made[f"{_SSL}.{name}.password"] = password.get_secret_value()
    return made
