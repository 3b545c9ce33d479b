# docker build --tag comity .
# docker run --rm --volume "$PWD/runs:/home/comity/runs" comity run deep-sea-treasure
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# Where torch's builds for CPUs are at another index, give its address: --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL=
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --constraint constraints.txt ".[environments,grpc,onnx,parquet,explore]"

FROM python:3.11-slim
RUN useradd --create-home --uid 1000 comity
COPY --from=build /venv /venv
USER 1000
WORKDIR /home/comity
ENTRYPOINT ["/venv/bin/comity"]
CMD ["--help"]
