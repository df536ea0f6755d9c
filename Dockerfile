# CPU image of Plumbline with the embedding model inside: it answers without a key, a model hub or a network.
#
# PyTorch's default wheels for Linux carry CUDA. Give pip the address of PyTorch's CPU index, as its "Get started" page
# names it, by --build-arg PIP_EXTRA_INDEX_URL=...; or put the CPU wheel into wheels/ beside this file.
FROM python:3.11-slim-bookworm AS build
ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
RUN python -m venv /opt/plumbline
WORKDIR /src
# Dependencies first: this layer is kept until the lock changes. `wheels*` matches nothing when there is no such folder.
COPY pyproject.toml requirements.lock README.md wheels* ./wheels/
RUN mv wheels/pyproject.toml wheels/requirements.lock wheels/README.md . \
    && mkdir app && touch app/__init__.py && mkdir prompts \
    && PIP_FIND_LINKS=/src/wheels PIP_EXTRA_INDEX_URL="$PIP_EXTRA_INDEX_URL" \
       /opt/plumbline/bin/pip install --constraint requirements.lock '.[offline,postgres]' \
    && if /opt/plumbline/bin/pip show --quiet nvidia-cublas 2>/dev/null; then \
         echo 'this would be a CUDA image: see the head of the Dockerfile' >&2; exit 1; fi
COPY app app
COPY prompts prompts
RUN /opt/plumbline/bin/pip install --no-deps --force-reinstall . \
    && /opt/plumbline/bin/pip uninstall --yes pip

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Plumbline" \
      org.opencontainers.image.description="Tells whether what a RAG app says is true to what it retrieved."
RUN groupadd --gid 10001 plumbline && useradd --uid 10001 --gid plumbline --no-create-home --shell /usr/sbin/nologin plumbline \
    && install --directory --owner plumbline --group plumbline --mode 0700 /data
COPY --from=build /opt/plumbline /opt/plumbline
ENV PATH=/opt/plumbline/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 HOME=/tmp \
    PLUMBLINE_DATA_DIR=/data
# Jobs live here: mount a volume that is kept, or name a PostgreSQL by PLUMBLINE_DATABASE_URL.
VOLUME /data
USER 10001:10001
EXPOSE 8000
# Off loopback nothing but health is served until PLUMBLINE_API_KEYS is set (or PLUMBLINE_ALLOW_ANONYMOUS=true).
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["plumbline", "serve", "--host", "0.0.0.0", "--port", "8000"]
