# thinwire on a fresh Debian 12, as a newcomer meets it.
#
#   docker build -t thinwire .                      installs, builds and runs all tests (make deps, make test)
#   docker run --rm -it thinwire                    a shell in the built tree, with build/thinwire
#   docker build --target demo -t thinwire-demo .   only what the demo needs: minutes
#   docker run --rm -it thinwire-demo               the demo
#
# Tests that need network namespaces say that they were skipped; to run them as well:
#   docker run --rm --privileged thinwire make test
FROM debian:12 AS base
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends ca-certificates git make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /thinwire
# Packages come first, so that a change of the sources does not install them again.
COPY tools/deps tools/deps

FROM base AS demo
RUN tools/deps demo
COPY . .
RUN cmake --preset demo && cmake --build build --target thinwire_main
CMD ["tools/demo"]

FROM base AS test
RUN tools/deps
COPY . .
RUN make deps build
RUN make test
CMD ["bash"]
