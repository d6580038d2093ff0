FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN VERSION=$VERSION script/build && install -d -o 65532 -g 65532 /empty

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/local/go/lib/time/zoneinfo.zip /zoneinfo.zip
COPY --from=build --chown=65532:65532 /empty /data
COPY --from=build --chown=65532:65532 /empty /tmp
COPY --from=build /src/bin/deadman /usr/bin/deadman
COPY --from=build /src/LICENSE /LICENSE
ENV PATH=/usr/bin ZONEINFO=/zoneinfo.zip DEADMAN_DATA_DIR=/data DEADMAN_HTTP_ADDR=:8080
USER 65532:65532
WORKDIR /
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["deadman"]
CMD ["serve"]
