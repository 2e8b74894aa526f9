# syntax=docker/dockerfile:1
FROM node:20-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci
COPY nest-cli.json tsconfig.json ./
COPY projections projections
COPY scripts scripts
COPY src src
RUN npm run build && npm prune --omit=dev

FROM node:20-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
# Owned by root and only read: the process may change nothing of the program.
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
# For the embedded profile; the cluster profile writes nothing.
ENV CREDENCE_DATA=/data
RUN install --directory --owner=node --group=node /data
VOLUME /data
USER node
EXPOSE 3000
CMD ["node", "--max-semi-space-size=32", "dist/src/main.js"]
