# syntax=docker/dockerfile:1
# An exact release of a maintained line. Whoever builds for production pins it by digest too:
# --build-arg NODE_IMAGE=node:24.21.0-bookworm-slim@sha256:…
ARG NODE_IMAGE=node:24.21.0-bookworm-slim
FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json LICENSE ./
RUN npm ci
COPY nest-cli.json tsconfig.json ./
COPY projections projections
COPY scripts scripts
COPY clients clients
COPY console console
COPY tracing tracing
COPY src src
RUN node scripts/install.mjs console clients/typescript tracing && npm run build && npm prune --omit=dev

FROM ${NODE_IMAGE}
ENV NODE_ENV=production
WORKDIR /app
# Owned by root and only read: the process may change nothing of the program.
COPY --from=build /app/package.json /app/LICENSE ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY examples/bitcoin-otc-excerpt.csv examples/example-data.mjs examples/otc.mjs examples/
# A volume begins with the owner and the mode of its folder. Whatever user the container is given can write to it.
ENV CREDENCE_DATA=/data
RUN install --directory --owner=node --group=node --mode=1777 /data
VOLUME /data
# For "docker exec credence credence status".
RUN ln -s /app/dist/src/cli.js /usr/local/bin/credence && chmod +x /app/dist/src/cli.js
# The user "node" of the image. Kubernetes can see of a number only that it is not root.
USER 1000:1000
EXPOSE 3000
STOPSIGNAL SIGTERM
# It responds within seconds: read models are built while it answers.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.CREDENCE_PORT ?? 3000}/health/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--max-semi-space-size=32", "dist/src/main.js"]
