# CPU image of Plumbline with the embedding model inside: it answers without a key, a model hub or a network.
#
# PyTorch's CPU build is not where the other packages are. Give pip the address of PyTorch's CPU index, as its "Get
# started" page names it, by --build-arg PIP_EXTRA_INDEX_URL=...; or put the CPU wheel into wheels/ beside this file.
# Every package is installed by its hash, wherever it comes from.
#
# The base is a tag, and tags move: a release names what it was built on by --build-arg BASE=...@sha256:...
ARG BASE=python:3.11-slim-bookworm

# hadolint ignore=DL3006
FROM ${BASE} AS build
ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ONLY_BINARY=:all: PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
RUN python -m venv /opt/build && python -m venv /opt/plumbline
# Dependencies first: these layers are kept until a lock changes. `wheels*` matches nothing when there is no such folder.
COPY deploy/requirements-build.lock deploy/requirements-image.lock deploy/requirements-torch.lock wheels* ./wheels/
RUN /opt/build/bin/pip install --require-hashes --requirement wheels/requirements-build.lock \
    && PIP_FIND_LINKS=/src/wheels PIP_EXTRA_INDEX_URL="$PIP_EXTRA_INDEX_URL" /opt/plumbline/bin/pip install \
    --require-hashes --requirement wheels/requirements-image.lock --requirement wheels/requirements-torch.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY prompts prompts
RUN /opt/build/bin/python -m hatchling build --target wheel --directory /wheel \
    && /opt/plumbline/bin/pip install --no-deps --no-index /wheel/*.whl \
    && /opt/plumbline/bin/pip check \
    && /opt/plumbline/bin/pip uninstall --yes pip
# [model] The weights are a package of requirements-image.lock: loaded once, as a check.
RUN HF_HUB_OFFLINE=1 /opt/plumbline/bin/plumbline doctor prepare

# hadolint ignore=DL3006
FROM ${BASE}
ARG BASE
ARG VERSION=0.3.0
ARG REVISION=""
LABEL org.opencontainers.image.title="Plumbline" \
      org.opencontainers.image.description="Tells whether what a RAG app says is true to what it retrieved." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
# Neither an installer nor a program that takes another's rights is left.
RUN groupadd --gid 10001 plumbline \
    && useradd --uid 10001 --gid plumbline --no-create-home --shell /usr/sbin/nologin plumbline \
    && install --directory --owner plumbline --group plumbline --mode 0700 /data \
    && rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/* /usr/local/lib/python3*/ensurepip \
    && find /usr -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=build /opt/plumbline /opt/plumbline
ENV PATH=/opt/plumbline/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 HOME=/tmp \
    PLUMBLINE_DATA_DIR=/data
# Jobs live here: mount a volume that is kept, or name a PostgreSQL by PLUMBLINE_DATABASE_URL.
VOLUME /data
USER 10001:10001
EXPOSE 8000
# It listens on loopback alone until there is a key (docs/how-to/access.md), or PLUMBLINE_ALLOW_ANONYMOUS=true.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-IS", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["plumbline", "serve", "--host", "auto", "--port", "8000"]
